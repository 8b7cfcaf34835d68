//! Parts of files in a folder, such as a network drive: `object_store` resumes no upload there.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use livebag::{Access, Clock, Disk, DiskFile, KernelDisk};
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{Error, MultipartId, PutPayload, PutResult, Result};
use rustix::fs::{CWD, renameat};

use crate::limits::PART_BYTES;
use crate::pace::Pacer;

/// Files get their names when they are complete; before that they are hidden beside their place.
pub struct FolderParts {
    /// The target's folder.
    pub root: PathBuf,
    /// Shared with every other sender of this target.
    pub pacer: Arc<Pacer>,
}

impl FolderParts {
    fn place(&self, path: &Path) -> PathBuf {
        path.parts().fold(self.root.clone(), |place, part| place.join(part.as_ref()))
    }

    fn staged(&self, path: &Path, id: &str) -> PathBuf {
        let place = self.place(path);
        let name = place.file_name().unwrap_or_default().to_string_lossy().into_owned();
        place.with_file_name(format!(".{name}.{id}.livebag-part"))
    }

    /// In a thread that may wait for a disk.
    async fn on_disk<T: Send + 'static>(
        path: &Path,
        work: impl FnOnce(&KernelDisk) -> io::Result<T> + Send + 'static,
    ) -> Result<T> {
        let done = tokio::task::spawn_blocking(move || work(&KernelDisk::for_reading())).await;
        done.map_err(|source| Error::JoinError { source })?.map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => {
                Error::NotFound { path: path.to_string(), source: Box::new(source) }
            }
            _ => Error::Generic { store: "folder", source: Box::new(source) },
        })
    }
}

#[async_trait]
impl MultipartStore for FolderParts {
    async fn create_multipart(&self, path: &Path) -> Result<MultipartId> {
        let id = format!("{:x}-{:x}", Clock::system().wall_nanos(), std::process::id());
        let staged = self.staged(path, &id);
        Self::on_disk(path, move |disk| {
            if let Some(folder) = staged.parent() {
                std::fs::create_dir_all(folder)?;
            }
            disk.create(&staged, Access::Buffered).map(drop)
        })
        .await?;
        Ok(id)
    }

    async fn put_part(
        &self,
        path: &Path,
        id: &MultipartId,
        part: usize,
        data: PutPayload,
    ) -> Result<PartId> {
        let staged = self.staged(path, id);
        let pacer = self.pacer.clone();
        Self::on_disk(path, move |disk| {
            let file = disk.open_for_repair(&staged)?;
            write_paced(&*file, part as u64 * PART_BYTES, &data, &pacer)
        })
        .await?;
        Ok(PartId { content_id: String::new() })
    }

    async fn complete_multipart(
        &self,
        path: &Path,
        id: &MultipartId,
        _parts: Vec<PartId>,
    ) -> Result<PutResult> {
        let (staged, place) = (self.staged(path, id), self.place(path));
        Self::on_disk(path, move |disk| {
            disk.sync_file_at(&staged)?;
            renameat(CWD, &staged, CWD, &place)?;
            place.parent().map_or(Ok(()), |folder| disk.sync_dir(folder))
        })
        .await?;
        Ok(PutResult { e_tag: None, version: None, extensions: Default::default() })
    }

    async fn abort_multipart(&self, path: &Path, id: &MultipartId) -> Result<()> {
        let staged = self.staged(path, id);
        Self::on_disk(path, move |disk| disk.remove(&staged)).await
    }
}

fn write_paced(
    file: &dyn DiskFile,
    mut offset: u64,
    data: &PutPayload,
    pacer: &Pacer,
) -> io::Result<()> {
    for slice in data.iter().flat_map(|bytes| bytes.chunks(pacer.slice_bytes())) {
        pacer.take_blocking(slice.len());
        file.write_at(slice, offset)?;
        offset += slice.len() as u64;
    }
    Ok(())
}
