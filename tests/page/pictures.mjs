// Makes the pictures of docs/pictures/ from a simulated drive and a live one: `pictures.mjs FOLDER`.

import { existsSync, mkdirSync } from "node:fs";
import path from "node:path";
import { browser, colours, drive, folder, LIVEBAG, MAKE_DRIVE, open, run, serve, until } from "./browser.mjs";

const out = process.argv[2] ?? "docs/pictures";
mkdirSync(out, { recursive: true });
const runs = folder("pictures");
for (const [name, seconds] of /** @type {const} */ ([["2026-11-24_harbour", 45], ["2026-11-24_old_town", 60], ["2026-11-23_night", 20]])) {
  await run(MAKE_DRIVE, path.join(runs, name), String(seconds));
}
const recorder = drive(path.join(runs, "now"));
await until(async () => existsSync(path.join(runs, "now", "container.yaml")), "the recorder has begun");
const { at, stop } = await serve(runs);
try {
  const info = await (await fetch(`${at}/v1/bags/2026-11-24_old_town`)).json();
  const began = BigInt(info.start_time);
  const time = (/** @type {number} */ seconds) => (began + BigInt(Math.round(seconds * 1e9))).toString();
  await run(LIVEBAG, "event", path.join(runs, "2026-11-24_old_town"), "hard brake", "--text", "pedestrian steps onto the road", "--from", "20s", "--to", "23s");
  await run(LIVEBAG, "event", path.join(runs, "2026-11-24_old_town"), "handover", "--text", "driver takes over", "--from", "41s");
  const panels = "p=image+/camera_front/image&p=image+/camera_rear/image&p=points+/lidar/points&p=plot+/imu/data+linear_acceleration.x+linear_acceleration.y";
  const recording = `#/2026-11-24_old_town?at=${time(21.5)}&${panels}`;
  const phone = { viewport: { width: 390, height: 780 }, deviceScaleFactor: 1, hasTouch: true, isMobile: true };
  const wide = { viewport: { width: 1280, height: 820 } };
  /** @type {[string, string, object, ((page: any) => Promise<unknown>)?][]} */
  const shots = [
    ["page-dark", recording, { ...wide, colorScheme: "dark" }],
    ["page-light", recording, { ...wide, colorScheme: "light" }],
    ["page-phone", recording, { ...phone, colorScheme: "dark" }],
    ["list", "#/", { viewport: { width: 1280, height: 300 }, colorScheme: "light" }, (page) => until(async () => (await page.locator(".thumbs canvas").count()) === 20 && (await colours(page.locator(".thumbs canvas").last())) > 8, "all thumbnails")],
    ["live", `#/now?p=image+/camera_front/image&p=log+/rosout&p=message+/imu/data`, { ...wide, colorScheme: "dark" }, async (page) => {
      recorder.tell("stall /gps/fix");
      await until(async () => /stalled/.test(await page.locator(".verdict").textContent()), "something is wrong");
    }],
    ["range", `#/2026-11-24_old_town?at=${time(21.5)}&range=${time(18)}-${time(25)}&p=image+/camera_front/image&p=log+/rosout&p=message+/odom`, { ...wide, colorScheme: "light" }, (page) => page.locator(".range tbody tr").first().waitFor()],
  ];
  for (const [name, hash, options, ready] of shots) {
    const { page, close } = await open(at, hash, options);
    if (name !== "list") {
      await until(async () => (await colours(page.locator("canvas.lane").first())) > 1, "lanes");
      await until(async () => (await colours(page.locator(".panel.image canvas").first())) > 8, "a picture");
    }
    await ready?.(page);
    await page.waitForTimeout(1500);
    await page.screenshot({ path: path.join(out, `${name}.png`) });
    await close();
  }
} finally {
  await recorder.end();
  stop();
  await browser.close();
}
