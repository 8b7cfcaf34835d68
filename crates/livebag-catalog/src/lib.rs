//! Catalogues: what recordings a bucket or a folder has, in Parquet objects below `_livebag/`.
//!
//! Each pushed recording has one immutable object with a [`Row`] for each topic and split. No service keeps a
//! catalogue, and no lock guards it: DuckDB, Polars and others read the same objects (`docs/catalog.md`).
//!
//! `survey` makes rows from a recording's manifests and time indexes, `table` turns rows into Parquet and back,
//! `filter` chooses rows. A [`Catalogue`] lists and adds objects, `find` reads them, `compact` merges them, `rebuild`
//! makes lost ones anew from the manifests in the store. [`Opened`] does this for all catalogues of a place.

mod limits;

mod error;
mod row;

mod filter;
mod survey;
mod table;

mod catalogue;
mod compact;
mod find;
mod rebuild;

mod opened;

pub use catalogue::{CATALOGUE_FOLDER, Catalogue};
pub use compact::Compacted;
pub use error::CatalogueError;
pub use filter::{Filter, NamePattern};
pub use find::Columns;
pub use opened::Opened;
pub use rebuild::Rebuilt;
pub use row::{Row, StoredFile};
pub use survey::{
    FileTopic, Recorded, Split, entry_time, index_ends, recording_id, rows_of_container,
    rows_of_file, rows_of_rosbag2,
};
