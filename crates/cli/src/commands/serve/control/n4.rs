//! N4 for several nodes, while the controller leads.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use weft_mobility_controller::config::Configuration;
use weft_mobility_controller::engine::{Engine, Handle};
use weft_mobility_controller::n4::{
    N4, N4Node, N4NodeView, N4PeerView, N4RefusedView, N4Shown, N4View,
};
use weft_pfcp::proxy::server::{Kept, ProxyServer, Site};
use weft_pfcp::proxy::show::ProxyView;
use weft_pfcp::proxy::{NodePlan, ProxyId, Settings};

/// How often it is looked whether the controller leads.
const LOOK: Duration = Duration::from_millis(100);
/// How often it is looked whether the file was edited.
const REREAD: Duration = Duration::from_secs(1);
/// How often the log says that N4 cannot be served.
const REMINDER: Duration = Duration::from_secs(10);

/// Serves N4 until it is dropped, whenever the controller leads.
pub struct Serving {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Serving {
    /// Begins to.
    ///
    /// # Errors
    /// The machine has no thread for it.
    pub fn start(
        file: PathBuf,
        plan: N4,
        handle: Handle,
        shown: N4Shown,
    ) -> std::io::Result<Serving> {
        let stop: Arc<AtomicBool> = Arc::default();
        let told = stop.clone();
        let nodes = Nodes::new(file, plan.nodes.clone());
        let work = move || serve(&plan, &nodes, &handle, &shown, &told);
        let thread = Builder::new().name("n4-lead".to_owned()).spawn(work)?;
        Ok(Serving { stop, thread: Some(thread) })
    }

    /// Whether its thread has ended by itself.
    pub fn is_dead(&self) -> bool {
        self.thread.as_ref().is_some_and(JoinHandle::is_finished)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of it was reported when it happened.
            let _ = thread.join();
        }
    }
}

fn serve(plan: &N4, nodes: &Nodes, handle: &Handle, shown: &N4Shown, stop: &AtomicBool) {
    let mut server: Option<(u64, ProxyServer)> = None;
    let plans = Plans::default();
    let mut said: Option<Instant> = None;
    while !stop.load(Ordering::Relaxed) {
        // The engine of another term has other records: each has a proxy of its own.
        let engine = handle.engine();
        if server.as_ref().is_some_and(|(of, one)| Some(*of) != engine || one.is_finished()) {
            tracing::info!("N4 is not served any more");
            server = None;
            shown.set(None);
        }
        if let (None, Some(engine)) = (&server, engine) {
            match begin(plan, &plans, engine, handle, shown) {
                Ok(begun) => {
                    tracing::info!(listen = ?plan.listen, "N4 is served");
                    (server, said) = (begun.map(|one| (engine, one)), None);
                }
                Err(error) if said.is_none_or(|said| said.elapsed() > REMINDER) => {
                    tracing::warn!("N4 cannot be served yet: {error}");
                    said = Some(Instant::now());
                }
                Err(_) => {}
            }
        }
        // The engine may wait for etcd; N4 does not.
        let planned = nodes.plans(handle);
        *plans.lock().unwrap_or_else(PoisonError::into_inner) = planned;
        std::thread::sleep(LOOK);
    }
    drop(server);
    shown.set(None);
}

/// Serves N4 with the records of an engine; nothing if it has stopped.
fn begin(
    plan: &N4,
    plans: &Plans,
    engine: u64,
    handle: &Handle,
    shown: &N4Shown,
) -> Result<Option<ProxyServer>, weft_pfcp::ServerError> {
    let Ok(kept) = handle.ask_and_wait(|engine| engine.n4_records()) else { return Ok(None) };
    if handle.engine() != Some(engine) {
        return Ok(None);
    }
    let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let settings = Settings {
        listen: plan.listen.clone(),
        port: plan.port,
        node_id: match &plan.node_id {
            Ok(address) => ProxyId::Address(*address),
            Err(name) => ProxyId::Name(name.clone()),
        },
        peers: plan.peers.clone(),
        heartbeat: nanoseconds(plan.heartbeat),
        t1: nanoseconds(plan.t1),
        n1: plan.n1,
        lease: nanoseconds(plan.lease),
        associations: plan.associations,
    };
    let (plans, handle, shown) = (plans.clone(), handle.clone(), shown.clone());
    let site = OfController { plans, handle, shown };
    ProxyServer::start(settings, kept, site).map(Some)
}

/// The nodes as the engine has said last.
type Plans = Arc<Mutex<Option<Planned>>>;

/// What the engine says of nodes.
struct Planned {
    plans: Vec<NodePlan>,
    /// Numbers of those that have registered.
    registered: Vec<u16>,
    /// Those that cannot be behind N4, and why.
    refused: Vec<N4RefusedView>,
}

/// The nodes of the controller's file, which may be edited meanwhile.
#[derive(Clone)]
struct Nodes(Arc<Mutex<Edited>>);

struct Edited {
    file: PathBuf,
    /// When the file was written that was read last, and when it was looked at.
    written: Option<SystemTime>,
    looked: Instant,
    nodes: Vec<N4Node>,
}

impl Nodes {
    fn new(file: PathBuf, nodes: Vec<N4Node>) -> Nodes {
        let written = written(&file);
        Nodes(Arc::new(Mutex::new(Edited { file, written, looked: Instant::now(), nodes })))
    }

    /// Those of the file as it is now; what cannot be read changes nothing.
    fn get(&self) -> Vec<N4Node> {
        let mut edited = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if edited.looked.elapsed() >= REREAD {
            edited.looked = Instant::now();
            let now = written(&edited.file);
            if now.is_some() && now != edited.written {
                edited.written = now;
                edited.reread();
            }
        }
        edited.nodes.clone()
    }
}

impl Nodes {
    /// The nodes, with what the engine knows of them; none where there is no engine.
    fn plans(&self, handle: &Handle) -> Option<Planned> {
        let nodes = self.get();
        let planned = move |engine: &mut Engine| {
            let planned = engine.n4_plans(nodes);
            let shares = engine.shares();
            let moves = |number| {
                shares.iter().any(|share| share.number == number && share.moves_to.is_some())
            };
            let plan = |(node, is_cordoned, capacity): (N4Node, bool, u64)| NodePlan {
                number: node.number,
                name: node.name.into(),
                address: node.address,
                is_cordoned,
                is_moving: moves(node.number),
                capacity,
            };
            let refused = engine.n4_refused().into_iter();
            Planned {
                plans: planned.into_iter().map(plan).collect(),
                registered: engine.n4_registered(),
                refused: refused.map(|(node, reason)| N4RefusedView { node, reason }).collect(),
            }
        };
        handle.ask_and_wait(planned).ok()
    }
}

impl Edited {
    fn reread(&mut self) {
        match Configuration::load(&self.file).map(|read| read.n4) {
            Ok(Some(plan)) if plan.nodes == self.nodes => {}
            Ok(Some(plan)) => {
                tracing::info!(nodes = plan.nodes.len(), "N4: the nodes of the file have changed");
                self.nodes = plan.nodes;
            }
            Ok(None) => tracing::warn!("N4: the file has no `n4` any more; nodes stay"),
            Err(mistakes) => tracing::warn!("N4: nodes stay as they are: {mistakes}"),
        }
    }
}

fn written(file: &Path) -> Option<SystemTime> {
    file.metadata().and_then(|known| known.modified()).ok()
}

/// The site of a controller.
struct OfController {
    plans: Plans,
    handle: Handle,
    shown: N4Shown,
}

impl OfController {
    fn planned(&self) -> MutexGuard<'_, Option<Planned>> {
        self.plans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells which nodes are otherwise than when they were shown last.
    fn tell(&self, view: &ProxyView) {
        let before = self.shown.get().unwrap_or_default().nodes;
        for node in &view.nodes {
            let is_same = |one: &N4NodeView| one.number == node.number && one.state == node.state;
            if !before.iter().any(is_same) {
                let (name, state) = (node.name.clone(), node.state.clone());
                // Where the controller leads no longer, there is no listener.
                let told = move |engine: &mut Engine| {
                    engine.tell_n4(name, &state);
                };
                let _ = self.handle.tell(told, Box::new(|| ()));
            }
        }
    }
}

impl Site for OfController {
    fn nodes(&self) -> Option<Vec<NodePlan>> {
        self.planned().as_ref().map(|planned| planned.plans.clone())
    }

    fn keep(&self, kept: Vec<Kept>, done: Box<dyn FnOnce() + Send>) {
        // Where the controller leads no longer, the proxy ends with what it has not kept.
        let _ = self.handle.tell(move |engine| engine.keep_n4(kept), done);
    }

    fn show(&self, view: ProxyView) {
        let planned = self.planned();
        let registered = planned.as_ref().map(|planned| planned.registered.clone());
        let refused = planned.as_ref().map(|planned| planned.refused.clone());
        drop(planned);
        let registered = registered.unwrap_or_default();
        let node = |node: weft_pfcp::proxy::show::ProxiedNode| N4NodeView {
            name: node.name,
            number: node.number,
            address: node.address,
            state: node.state,
            sessions: node.sessions,
            most: node.most,
            associations: node.associations,
            registered: registered.contains(&node.number),
        };
        let peer = |peer: weft_pfcp::proxy::show::ProxiedPeer| N4PeerView {
            node: peer.node,
            address: peer.address,
            up: peer.up,
        };
        self.tell(&view);
        self.shown.set(Some(N4View {
            nodes: view.nodes.into_iter().map(node).collect(),
            refused: refused.unwrap_or_default(),
            control_planes: view.peers.into_iter().map(peer).collect(),
            counts: view.counts.named().map(|(name, count)| (name.to_owned(), count)).collect(),
        }));
    }
}
