//! The client: what can be asked of it.

use std::sync::Arc;

use forebay_types::{BlockIndex, ObjectHead, RangeAsk};

use crate::ask::Name;
use crate::config::ClientConfig;
use crate::error::{ConnectError, ReadError};
use crate::follow::Follower;
use crate::object::{self, Object};
use crate::servers::Servers;

/// A client of one cluster. Clones share connections and the ring; the last one to go ends the
/// following.
///
/// How many reads are open at a time is the caller's to bound; each has one connection, and up
/// to four more for blocks ahead as long as the client as a whole has room for them.
#[derive(Debug, Clone)]
pub struct Client {
    servers: Arc<Servers>,
    _follower: Arc<Follower>,
}

impl Client {
    /// Learns the ring from the first endpoint that answers.
    pub async fn connect(config: ClientConfig) -> Result<Self, ConnectError> {
        let servers = Arc::new(Servers::new(&config)?);
        let follower = Follower::start(Arc::clone(&servers)).await?;
        Ok(Self { servers, _follower: Arc::new(follower) })
    }

    /// The version that a name has now.
    pub async fn head(&self, bucket: &str, key: &str) -> Result<ObjectHead, ReadError> {
        object::head(&self.servers, &Name::new(bucket, key)?).await
    }

    /// Opens a whole object.
    pub async fn get(&self, bucket: &str, key: &str) -> Result<Object, ReadError> {
        self.get_range(bucket, key, RangeAsk::Whole).await
    }

    /// Opens a part of an object; a range past its end is cut to it.
    pub async fn get_range(
        &self,
        bucket: &str,
        key: &str,
        range: RangeAsk,
    ) -> Result<Object, ReadError> {
        object::open(Arc::clone(&self.servers), Name::new(bucket, key)?, range).await
    }

    /// The workers that own a block, best first, as `host:port`. Empty where the ring is not
    /// known, or no rule names the bucket.
    pub fn owners(
        &self,
        bucket: &str,
        key: &str,
        block: BlockIndex,
    ) -> Result<Vec<String>, ReadError> {
        let name = Name::new(bucket, key)?;
        let cluster = self.servers.cluster();
        let owners = cluster.owners(&name, block).into_iter();
        Ok(owners.map(|server| server.authority.to_string()).collect())
    }
}
