// @ts-check
/** Lists the recordings of this server. */
const list = /** @type {HTMLElement} */ (document.getElementById("recordings"));
const answer = await fetch("/v1/bags");
const recordings = answer.ok ? await answer.json() : [];
for (const recording of recordings) {
  const item = document.createElement("li");
  item.textContent = `${recording.name}: ${recording.state}`;
  list.append(item);
}
