//! One run of a worker's process: everything that its cache sees of the world. When it is
//! killed, nothing that it still does has any effect.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use forebay_cache::{
    Forward, ForwardBody, Found, LocalBlocks, NotStored, OriginBody, OriginFailure, OriginObjects,
    Place, Placement, Versions, Vouching,
};
use forebay_rt::Clock;
use forebay_telemetry::ReadCtx;
use forebay_types::{
    BlockIndex, BucketName, ByteRange, ObjectHead, ObjectId, ObjectName, Stamp, WorkerId,
};
use futures_util::{StreamExt, stream};
use http_body::Frame;
use http_body_util::{BodyExt, Empty, StreamBody};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::super::disk::{FakeStore, FakeVersions};
use super::super::pattern::frames;
use super::net::Node;
use super::voters::{Broken, Lease, View};
use super::{Shared, WriteFault};

/// How long a worker waits for an origin that does not answer.
const ORIGIN_TIMEOUT: Duration = Duration::from_secs(1);

/// What survives the process.
#[derive(Default)]
pub struct Disk {
    pub store: FakeStore,
    pub versions: FakeVersions,
}

pub struct Process {
    pub me: usize,
    pub shared: Arc<Shared>,
    pub this: Weak<Process>,
    disk: Arc<Disk>,
    lease: Mutex<Lease>,
    dead: AtomicBool,
    dies: Notify,
    /// No heartbeat is sent before then.
    silent_until: Mutex<Duration>,
}

impl Process {
    pub fn start(me: usize, shared: &Arc<Shared>, disk: Arc<Disk>, lease: Lease) -> Arc<Self> {
        let process = Arc::new_cyclic(|this| Self {
            me,
            shared: shared.clone(),
            this: this.clone(),
            disk,
            lease: Mutex::new(lease),
            dead: AtomicBool::new(false),
            dies: Notify::new(),
            silent_until: Mutex::default(),
        });
        forebay_rt::spawn(heartbeats(process.clone()));
        process
    }

    pub fn node(&self) -> Node {
        Node::Worker(self.me)
    }

    pub fn kill(&self) {
        self.dead.store(true, Ordering::Relaxed);
        self.dies.notify_waiters();
    }

    pub fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Relaxed)
    }

    pub async fn died(&self) {
        let dies = self.dies.notified();
        let mut dies = std::pin::pin!(dies);
        dies.as_mut().enable();
        if !self.is_dead() {
            dies.await;
        }
    }

    /// Never returns once the process is dead.
    pub async fn live(&self) {
        if self.is_dead() {
            std::future::pending::<()>().await;
        }
    }

    pub fn view(&self) -> View {
        self.lease.lock().view.clone()
    }

    pub fn hear(&self, view: &View) {
        self.lease.lock().hear(view);
    }

    /// Sends no heartbeats for a while.
    pub fn be_silent(&self, time: Duration) {
        *self.silent_until.lock() = self.shared.net.clock.passed() + time;
    }

    async fn heartbeat(&self) {
        let net = &self.shared.net;
        if net.clock.passed() < *self.silent_until.lock() {
            return;
        }
        let sent_at = net.clock.now();
        if !net.cross(self.node(), Node::Voters).await {
            return;
        }
        let quorum_age = Duration::from_millis(net.below(800));
        let then = net.clock.now().checked_sub(quorum_age).unwrap_or(sent_at);
        let view = self.shared.voters.view_at(then);
        if net.cross(Node::Voters, self.node()).await {
            self.live().await;
            self.lease.lock().replied(&view, sent_at, quorum_age, net.clock.now());
        }
    }

    /// A request to the origin arrives there, or this is its answer.
    async fn reach_origin(&self) -> Result<(), OriginFailure> {
        self.travel(self.node(), Node::Origin).await
    }

    async fn hear_from_origin(&self) -> Result<(), OriginFailure> {
        self.travel(Node::Origin, self.node()).await
    }

    async fn travel(&self, from: Node, to: Node) -> Result<(), OriginFailure> {
        self.live().await;
        let net = &self.shared.net;
        if !net.cross(from, to).await {
            net.clock.sleep(ORIGIN_TIMEOUT).await;
            self.live().await;
            return Err(OriginFailure::Unavailable("no answer".into()));
        }
        self.live().await;
        Ok(())
    }

    fn place(&self, worker: usize) -> Place {
        if worker == self.me { Place::Here } else { Place::There(WorkerId(worker as u64)) }
    }
}

async fn heartbeats(process: Arc<Process>) {
    let clock = process.shared.net.clock.clone();
    loop {
        process.live().await;
        let beating = process.clone();
        // One that is late does not hold up the next.
        forebay_rt::spawn(async move { beating.heartbeat().await });
        clock.sleep(Duration::from_secs(1)).await;
    }
}

impl Placement for Process {
    fn owners(&self, name: &ObjectName, block: BlockIndex) -> Vec<Place> {
        let owners = self.lease.lock().view.owners(name, block);
        owners.into_iter().map(|worker| self.place(worker)).collect()
    }

    fn previous_owners(&self, name: &ObjectName, block: BlockIndex) -> Vec<WorkerId> {
        let mut owners = self.lease.lock().view.previous_owners(name, block);
        owners.retain(|owner| *owner != self.me);
        owners.into_iter().map(|worker| WorkerId(worker as u64)).collect()
    }

    fn vouching(&self, name: &ObjectName) -> Vouching {
        let (lease, broken) = (self.lease.lock(), self.shared.broken);
        let is_mine = lease.view.owners(name, BlockIndex(0)).first() == Some(&self.me);
        if !is_mine && broken != Broken::Usurper {
            return Vouching::NotMine;
        }
        lease.vouching(self.shared.net.clock.now(), broken)
    }

    fn others(&self) -> Vec<WorkerId> {
        let all = 0..self.shared.workers.lock().len();
        all.filter(|worker| *worker != self.me).map(|worker| WorkerId(worker as u64)).collect()
    }
}

#[async_trait]
impl LocalBlocks for Process {
    fn read_now(&self, id: &ObjectId, range: ByteRange) -> Found {
        self.disk.store.read_now(id, range)
    }

    async fn read(&self, id: &ObjectId, range: ByteRange) -> Found {
        self.disk.store.read(id, range).await
    }

    fn gap(&self, id: &ObjectId, range: ByteRange) -> Option<ByteRange> {
        self.disk.store.gap(id, range)
    }

    async fn store(&self, id: &ObjectId, at: ByteRange, all: Vec<Bytes>) -> Result<(), NotStored> {
        self.live().await;
        self.disk.store.store(id, at, all).await
    }

    fn cool(&self, _: &ObjectId) {}
}

#[async_trait]
impl Versions for Process {
    async fn recall(&self, name: &ObjectName) -> Option<ObjectHead> {
        self.disk.versions.recall(name).await
    }

    async fn remember(&self, name: &ObjectName, head: &ObjectHead) {
        self.live().await;
        self.disk.versions.remember(name, head).await;
    }

    async fn forget(&self, name: &ObjectName) {
        self.live().await;
        self.disk.versions.forget(name).await;
    }
}

#[async_trait]
impl OriginObjects for Process {
    async fn head(&self, _: &ReadCtx, name: &ObjectName) -> Result<ObjectHead, OriginFailure> {
        self.reach_origin().await?;
        self.shared.origin.heads.fetch_add(1, Ordering::Relaxed);
        let found = self.shared.origin.look(name.key.as_str());
        self.hear_from_origin().await?;
        Ok(found?.1)
    }

    async fn get(
        &self,
        _: &ReadCtx,
        name: &ObjectName,
        range: ByteRange,
        pin: Option<&Stamp>,
    ) -> Result<OriginBody, OriginFailure> {
        self.reach_origin().await?;
        self.shared.origin.gets.fetch_add(1, Ordering::Relaxed);
        let found = self.shared.origin.look(name.key.as_str());
        self.hear_from_origin().await?;
        let (version, head) = found?;
        let whole = ByteRange::new(0, head.stamp.size).ok_or(OriginFailure::Unsatisfiable)?;
        let range = range.intersect(whole).ok_or(OriginFailure::Unsatisfiable)?;
        if pin.is_some_and(|pin| *pin != head.stamp) {
            return Err(OriginFailure::Moved);
        }
        let (me, key) = (self.this.clone(), name.key.as_str().to_owned());
        let mut at = range.start();
        let frames = stream::iter(frames(version, range)).then(move |frame| {
            let (me, key) = (me.upgrade(), key.clone());
            let sent = ByteRange::new(at, at + frame.len() as u64);
            at += frame.len() as u64;
            async move {
                let (Some(me), Some(sent)) = (me, sent) else {
                    return std::future::pending().await;
                };
                me.live().await;
                if !me.shared.net.is_up(me.node(), Node::Origin) {
                    me.shared.net.clock.sleep(ORIGIN_TIMEOUT).await;
                    return Err(OriginFailure::Unavailable("the body breaks off".into()));
                }
                me.shared.origin.sent(&key, version, head.stamp.size, sent);
                Ok(frame)
            }
        });
        Ok(OriginBody { head, range, frames: frames.boxed() })
    }
}

#[async_trait]
impl Forward for Process {
    /// PUT writes an object of the size that a header names, DELETE deletes one.
    async fn forward(
        &self,
        _: Option<&BucketName>,
        request: http::Request<ForwardBody>,
    ) -> Result<http::Response<ForwardBody>, OriginFailure> {
        let key = request.uri().path().trim_start_matches('/').to_owned();
        let size = request.headers().get("x-size").map(|size| size.to_str().unwrap().parse());
        let size: Option<u64> = size.map(Result::unwrap);
        let fault = request.extensions().get::<WriteFault>().copied().unwrap_or_default();
        let (clock, origin) = (self.shared.net.clock.clone(), self.shared.origin.clone());
        self.reach_origin().await?;
        let change = move || origin.change(&key, size, clock.passed());
        let mut response = http::Response::new(empty());
        match fault {
            WriteFault::None => {
                response.headers_mut().insert("x-version", change().into());
            }
            WriteFault::AnswerWithBody => *response.body_mut() = self.slow_body(change),
            WriteFault::ErrorAfterCommit => {
                change();
                *response.status_mut() = http::StatusCode::INTERNAL_SERVER_ERROR;
            }
            WriteFault::NoAnswer => {
                change();
                self.shared.net.clock.sleep(Duration::from_secs(3)).await;
                return Err(OriginFailure::Unavailable("no answer to a write".into()));
            }
            WriteFault::LateCommit => {
                let late = self.shared.net.clock.sleep(Duration::from_secs(4));
                forebay_rt::spawn(async move {
                    late.await;
                    change();
                });
                return Err(OriginFailure::Unavailable("broken off".into()));
            }
            WriteFault::Refused => *response.status_mut() = http::StatusCode::PRECONDITION_FAILED,
        }
        self.hear_from_origin().await?;
        Ok(response)
    }
}

impl Process {
    /// Blanks while the origin is at work, and the version when it is done.
    fn slow_body(&self, change: impl FnOnce() -> u64 + Send + 'static) -> ForwardBody {
        let (clock, me) = (self.shared.net.clock.clone(), self.this.clone());
        let blank = stream::iter([Ok(Frame::data(Bytes::from_static(b" ")))]);
        let done = stream::once(async move {
            clock.sleep(Duration::from_millis(700)).await;
            let version = change();
            if let Some(me) = me.upgrade() {
                me.live().await;
            }
            Ok(Frame::data(Bytes::from(version.to_string())))
        });
        StreamBody::new(blank.chain(done)).boxed_unsync()
    }
}

fn empty() -> ForwardBody {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}
