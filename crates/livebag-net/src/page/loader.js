// Limits requests: only the newest one, or a few at a time.

/** Is this the end of an aborted request? @param {unknown} error */
export const isAbort = (error) => error instanceof DOMException && error.name === "AbortError";

/**
 * One request in flight, and of those made meanwhile only the newest: for a playhead that moves faster than answers
 * arrive.
 * @template Question, Answer
 */
export class Newest {
  /** @type {Question | undefined} */
  #next;
  #hasNext = false;
  #isBusy = false;
  #ask;
  #take;
  #fail;
  #busy;

  /**
   * @param {(question: Question) => Promise<Answer>} ask
   * @param {(answer: Answer, question: Question) => void} take
   * @param {(error: unknown, question: Question) => void} fail
   * @param {(isBusy: boolean) => void} [busy] what is shown is of an earlier question, or not any more
   */
  constructor(ask, take, fail, busy = () => {}) {
    this.#ask = ask;
    this.#take = take;
    this.#fail = fail;
    this.#busy = busy;
  }

  /** @param {Question} question */
  want(question) {
    this.#next = question;
    this.#hasNext = true;
    if (!this.#isBusy) void this.#run();
  }

  async #run() {
    this.#isBusy = true;
    this.#busy(true);
    while (this.#hasNext) {
      const question = /** @type {Question} */ (this.#next);
      this.#hasNext = false;
      try {
        this.#take(await this.#ask(question), question);
      } catch (error) {
        if (!isAbort(error)) this.#fail(error, question);
      }
    }
    this.#isBusy = false;
    this.#busy(false);
  }
}

/** A few jobs at a time, in the order in which they came. */
export class Turns {
  #free;
  /** @type {(() => void)[]} */
  #waiting = [];

  /** @param {number} atOnce */
  constructor(atOnce) {
    this.#free = atOnce;
  }

  /**
   * @template T
   * @param {() => Promise<T>} job
   * @returns {Promise<T>}
   */
  async run(job) {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise((/** @type {(value: void) => void} */ go) => this.#waiting.push(go));
    try {
      return await job();
    } finally {
      const next = this.#waiting.shift();
      if (next) next();
      else this.#free += 1;
    }
  }
}

/**
 * Calls `work` once it has not been asked for a while.
 * @param {number} millis
 * @param {() => void} work
 */
export function settled(millis, work) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(work, millis);
  };
}

/** Waits; true if nobody aborted meanwhile. @param {number} millis @param {AbortSignal} signal */
export function pause(millis, signal) {
  return new Promise((/** @type {(value: boolean) => void} */ done) => {
    if (signal.aborted) return done(false);
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", stop);
      done(true);
    }, millis);
    const stop = () => {
      clearTimeout(timer);
      done(false);
    };
    signal.addEventListener("abort", stop, { once: true });
  });
}
