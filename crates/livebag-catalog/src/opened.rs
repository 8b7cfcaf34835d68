//! The catalogues of a place.

use std::sync::Arc;
use std::time::Duration;

use livebag_bucket::{Address, BucketError, open_store, runtime};
use object_store::ObjectStore;
use object_store::client::ReqwestConnector;
use object_store::local::LocalFileSystem;
use object_store::path::Path;

use crate::catalogue::{Catalogue, Listed};
use crate::compact::Compacted;
use crate::error::{CatalogueError, of_store};
use crate::filter::Filter;
use crate::find::Columns;
use crate::limits::FOLDERS_MAX;
use crate::rebuild::Rebuilt;
use crate::row::Row;

/// A store that is opened for its catalogues alone.
pub struct Opened {
    root: Catalogue,
    runtime: tokio::runtime::Runtime,
}

impl Opened {
    /// Opens `s3://BUCKET/PREFIX`, `gs://…`, `az://…` or a folder. A store that does not answer is asked again for
    /// `give_up_after`.
    ///
    /// # Errors
    /// If the address makes no sense.
    pub fn open(address: &str, give_up_after: Duration) -> Result<Self, CatalogueError> {
        let runtime = runtime("livebag-catalog", || {})?;
        if !address.contains("://") {
            let wrong = |why: String| BucketError::Address(format!("{address}: {why}"));
            let root = std::path::Path::new(address).canonicalize();
            let root = root.map_err(|error| wrong(error.to_string()))?;
            let store = LocalFileSystem::new_with_prefix(root);
            let store = store.map_err(|error| wrong(error.to_string()))?.with_fsync(true);
            let address = address.trim_end_matches('/');
            return Ok(Self {
                root: Catalogue::new(Arc::new(store), Path::default(), address),
                runtime,
            });
        }
        let address = Address::parse(address)?;
        let store = open_store(&address, give_up_after, ReqwestConnector::default())?;
        let root = Catalogue::new(store.objects, address.prefix().clone(), address.as_str());
        Ok(Self { root, runtime })
    }

    /// The rows that fit, as they come; returns how many objects were read. A folder of robots that has no catalogue
    /// itself stands for those of the folders in it.
    ///
    /// # Errors
    /// If there is no catalogue, or it cannot be read.
    pub fn find(
        &self,
        filter: &Filter,
        columns: Columns,
        on_row: &mut dyn FnMut(&Catalogue, Row),
    ) -> Result<usize, CatalogueError> {
        self.runtime.block_on(async {
            let mut objects = 0;
            for catalogue in self.root.all().await? {
                objects += catalogue.find(filter, columns, on_row).await?;
            }
            Ok(objects)
        })
    }

    /// Merges small objects.
    ///
    /// # Errors
    /// If there is no catalogue, or the store does not take the new objects.
    pub fn compact(&self) -> Result<Compacted, CatalogueError> {
        self.runtime.block_on(async {
            let mut sum = Compacted::default();
            for catalogue in self.root.all().await? {
                sum.add(catalogue.compact().await?);
            }
            Ok(sum)
        })
    }

    /// Makes the rows of all recordings that have none.
    ///
    /// # Errors
    /// If the store does not answer, or does not take the new objects.
    pub fn rebuild(&self, robot: Option<&str>) -> Result<Rebuilt, CatalogueError> {
        self.runtime.block_on(self.root.rebuild(robot))
    }
}

impl Catalogue {
    /// This one, or those of the folders in it.
    async fn all(&self) -> Result<Vec<Self>, CatalogueError> {
        let has_one = |listed: Listed| listed.single.len() + listed.compacted.len() > 0;
        if has_one(self.list().await?) {
            return Ok(vec![self.clone()]);
        }
        let prefix = Some(&self.prefix).filter(|prefix| !prefix.as_ref().is_empty());
        let folders = self.store.list_with_delimiter(prefix).await;
        let folders = folders.map_err(|error| of_store(self.address.clone(), &error))?;
        let mut found = Vec::new();
        for prefix in folders.common_prefixes.into_iter().take(FOLDERS_MAX) {
            let name = prefix.filename().unwrap_or_default();
            let address = format!("{}/{name}", self.address);
            let catalogue = Self::new(self.store.clone(), prefix, address);
            if has_one(catalogue.list().await?) {
                found.push(catalogue);
            }
        }
        match found.is_empty() {
            true => Err(CatalogueError::Missing { address: self.address.clone() }),
            false => Ok(found),
        }
    }
}
