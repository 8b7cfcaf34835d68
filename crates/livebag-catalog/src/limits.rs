//! Every bound of this crate, in one place.

/// Objects that are fetched at once.
pub const GETS_MAX: usize = 16;
/// Objects up to this size are fetched whole; of larger ones the columns that are asked for.
pub const WHOLE_BYTES_MAX: u64 = 1 << 20;
/// The end of a larger object, which has its metadata.
pub const TAIL_BYTES: u64 = 512 << 10;
/// Objects above this size are not merged any more.
pub const MERGED_BYTES_MAX: u64 = 64 << 20;
/// Bytes of objects that are merged into one.
pub const MERGE_BYTES_MAX: u64 = 128 << 20;
/// Rows of a row group.
pub const GROUP_ROWS: usize = 128 << 10;
/// How often listing begins again because another process compacts the catalogue meanwhile.
pub const LISTINGS_MAX: usize = 8;
/// How often an object is sent that is lost or damaged on its way.
pub const CREATES_MAX: usize = 4;
/// Folders that are looked into for catalogues.
pub const FOLDERS_MAX: usize = 1000;
/// Larger objects are no manifest and no list of checksums.
pub const MANIFEST_BYTES_MAX: u64 = 64 << 20;

const _: () = assert!(TAIL_BYTES <= WHOLE_BYTES_MAX && MERGED_BYTES_MAX < MERGE_BYTES_MAX);
