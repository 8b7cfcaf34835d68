//! What can go wrong with a catalogue, in words.

use livebag_bucket::BucketError;

/// Why a catalogue was not read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CatalogueError {
    /// The address makes no sense, or the store refused something or did not answer.
    #[error(transparent)]
    Bucket(#[from] BucketError),
    /// There is none.
    #[error(
        "{address} has no catalogue (no {}/*.parquet): `livebag push` writes one, and `livebag catalog rebuild \
         {address}` makes it from the recordings there",
        crate::CATALOGUE_FOLDER
    )]
    Missing {
        /// Where one was expected.
        address: String,
    },
    /// An object of the catalogue cannot be read.
    #[error(
        "{address} is damaged, or no part of a catalogue ({why}): remove it, then run `livebag catalog rebuild`"
    )]
    Damaged {
        /// The object.
        address: String,
        /// What is wrong.
        why: String,
    },
    /// Rows cannot be turned into Parquet.
    #[error("the catalogue's rows cannot be written as Parquet: {0}")]
    Parquet(#[from] parquet::errors::ParquetError),
    /// What is stored is not what was written.
    #[error("{address} has other contents when it is read back: nothing was removed; try again")]
    NotVerified {
        /// The object.
        address: String,
    },
    /// Others change the catalogue all the time.
    #[error(
        "{address} changes all the time: another `livebag catalog compact` is at work; try again later"
    )]
    Busy {
        /// The catalogue.
        address: String,
    },
    /// A manifest in the store makes no sense.
    #[error("{address} cannot be read: {why}")]
    Manifest {
        /// The manifest.
        address: String,
        /// What is wrong.
        why: String,
    },
}

/// What a store's error means for `address`.
pub fn of_store(address: impl Into<String>, error: &object_store::Error) -> CatalogueError {
    BucketError::of_store(address, error).into()
}
