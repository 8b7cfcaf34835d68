// The server's answers, as types for the checker. Times are strings of digits: nanoseconds since 1970.

/** @typedef {"transport" | "queue" | "lapped" | "disk" | "abandoned"} Cause */
/** @typedef {{[cause in Cause]: number} & {total: number | null}} Lost */

/**
 * A recording in the list.
 * @typedef {object} BagRow
 * @property {string} name
 * @property {string} state
 * @property {string} profile
 * @property {string} started_time
 * @property {string | null} start_time
 * @property {string | null} end_time
 * @property {number} message_count
 * @property {number} topic_count
 * @property {number} [size_bytes]
 * @property {Lost} lost
 */

/**
 * A recording that another robot announces; without `recording` that robot does not answer.
 * @typedef {{robot: string, name: string, recording: BagRow | null}} RobotRow
 */

/**
 * @typedef {object} TopicRow
 * @property {string} name
 * @property {string} type
 * @property {string} message_encoding
 * @property {string} schema_encoding
 * @property {number} message_count
 * @property {number | null} rate_hz
 * @property {string | null} start_time
 * @property {string | null} end_time
 * @property {Lost} lost
 * @property {number} message_bytes
 * @property {{text?: string, hex?: string}} [schema]
 * @property {{[key: string]: string}} [metadata]
 */

/**
 * A named moment, or a named range of time.
 * @typedef {object} EventRow
 * @property {string} name
 * @property {string} text
 * @property {string} from_time
 * @property {string} to_time
 */

/** @typedef {BagRow & {library: string, failure: string | null, topics: TopicRow[], events?: EventRow[]}} BagInfo */

/** @typedef {{from_time: string, to_time: string}} Stretch */
/** @typedef {Stretch & {count: number, cause: Cause | null}} LossRow */

/**
 * @typedef {object} LaneRow
 * @property {string} topic
 * @property {string} type
 * @property {number[]} message_counts
 * @property {number[]} bytes
 * @property {LossRow[]} lost
 * @property {Lost} lost_unplaced `total` does not include losses that a gap places without a cause
 * @property {Stretch[]} gaps
 */

/** @typedef {EventRow & {kind: "split" | "attachment" | "event"}} Mark */

/**
 * @typedef {object} Timeline
 * @property {string} start_time
 * @property {string} end_time
 * @property {number} bin_nanos
 * @property {LaneRow[]} topics
 * @property {Mark[]} marks
 */

/**
 * One field of a series: `times` and `values` where it is exact, else an item for each bin.
 * @typedef {object} SeriesField
 * @property {string} field
 * @property {string[]} [times]
 * @property {(number | null)[]} [values]
 * @property {(number | null)[]} [min]
 * @property {(number | null)[]} [max]
 * @property {(number | null)[]} [first]
 * @property {(number | null)[]} [last]
 * @property {number[]} [counts]
 */

/** `every`: one message of so many was read. @typedef {{topic: string, start_time: string, end_time: string, bin_nanos: number, exact: boolean, every?: number, fields: SeriesField[]}} Series */
/** `lengths`: of each `[]` in the field, where it is fixed. @typedef {{field: string, type: string, numeric: boolean, lengths?: (number | null)[]}} FieldRow */

/**
 * A message, decoded; The form of `value` depends on the topic's type.
 * @typedef {object} MessageRow
 * @property {string} topic
 * @property {string} log_time
 * @property {string} publish_time
 * @property {number} sequence
 * @property {number} bytes
 * @property {any} [value]
 * @property {string} [error]
 */

/**
 * @typedef {object} TopicStatus
 * @property {string} topic
 * @property {number | null} rate_hz
 * @property {number | null} message_bytes_per_s
 * @property {number | null} newest_age_nanos
 * @property {number} message_count
 * @property {Lost} lost
 * @property {"recording" | "stalled" | "gone" | "idle"} state
 */

/**
 * How far a recording is pushed while it is made.
 * @typedef {object} PushStatus
 * @property {string} target
 * @property {boolean} paused
 * @property {string} state
 * @property {number} size_bytes
 * @property {number} stored_bytes
 * @property {string | null} error
 */

/**
 * State of a recording, twice a second.
 * @typedef {object} Status
 * @property {string} state
 * @property {string} now_time
 * @property {string | null} start_time
 * @property {string | null} end_time
 * @property {number} size_bytes
 * @property {number | null} free_bytes
 * @property {number | null} full_in_nanos
 * @property {number | null} bytes_per_s
 * @property {number | null} cache_bytes bytes waiting in memory; null if the recorder cannot be reached
 * @property {number | null} cache_bytes_max
 * @property {PushStatus | null} push null if the recorder does not push, or cannot be reached
 * @property {number} splits
 * @property {TopicStatus[]} topics
 */

/** @typedef {{from: number, to: number}} Range nanoseconds after the recording's first message */

/**
 * A panel as the URL names it: what it shows, and of which topics (of a plot also which fields).
 * @typedef {{kind: PanelKind, sources: {topic: string, field: string}[]}} PanelSpec
 */
/** @typedef {"image" | "plot" | "points" | "message" | "log"} PanelKind */

export {};
