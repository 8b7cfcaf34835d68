//! The way to a store: its client, and the threads that requests run on.

use std::future::Future;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use object_store::ObjectStore;
use tokio::runtime::{Handle, Runtime};

use crate::error::BucketError;
use crate::store::runtime;

/// A store that requests are sent to.
pub(crate) struct Connection {
    objects: Arc<dyn ObjectStore>,
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
}

impl Connection {
    /// Nothing is sent yet.
    ///
    /// # Errors
    /// If there is no thread for requests.
    pub fn new(objects: Arc<dyn ObjectStore>) -> Result<Arc<Self>, BucketError> {
        let runtime = Some(runtime("livebag-bucket", || ())?);
        Ok(Arc::new(Self { objects, runtime }))
    }

    /// Where requests run.
    pub fn handle(&self) -> &Handle {
        self.runtime.as_ref().expect("it is not being dropped").handle()
    }

    pub fn objects(&self) -> &Arc<dyn ObjectStore> {
        &self.objects
    }

    /// Waits for the store on any thread, also on one of another runtime.
    pub fn wait<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        let (sender, answer) = sync_channel(1);
        self.handle().spawn(async move { sender.send(work.await) });
        answer.recv().expect("the runtime runs")
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // The last user may be a thread of another runtime, which must not wait.
            runtime.shutdown_background();
        }
    }
}
