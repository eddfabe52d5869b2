//! What a page that is open costs the worker of a gateway.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use weft_functions::KINDS;
use weft_management_api::{Listening, Options};
use weft_node::Handle;

use weft_rig::{Failure, Gateway, Rig, Schedule, Setup, capture};
use weft_traffic::Rate;

/// How long the page may take for its next word; it has one each second.
const PATIENCE: Duration = Duration::from_secs(30);
/// Parts of a trial are whole seconds, as the node tells its page something once a second.
const SECOND: Duration = Duration::from_secs(1);

/// The processor time of the worker for a packet while a page listens, over that of the
/// seconds before, mean of so many turns. Time in which others have the core does not count.
///
/// # Errors
/// When the node cannot be built or served, or forwards nothing.
pub(super) fn cost_of_page(
    rig: &Rig,
    bearers: u32,
    frame_bytes: usize,
    turns: u32,
) -> Result<f64, Failure> {
    let load = Gateway::Decapsulate.load(bearers, frame_bytes, Rate::Unlimited);
    let packets = load.shares[0].template.packets(bearers).map_err(|error| error.to_string())?;
    let file = rig.scratch().join(format!("tunnels{}.pcap", rig.serial()));
    capture::write(&file, packets.into_iter().map(Ok))?;
    let setup = Setup::gateway(Gateway::Decapsulate, bearers, Vec::new());
    let running = setup.build(rig, &rig.endless(&[file]))?.start(rig.eal)?;
    let handle = running.handle();
    let ratio = served(&handle, rig.scratch(), turns);
    drop(handle);
    running.stop();
    ratio
}

/// The same of a node that runs.
fn served(handle: &Handle, folder: &Path, turns: u32) -> Result<f64, Failure> {
    let worker = Worker::of_this_process(handle)?;
    let page = weft_page::Options {
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        token: None,
        tls: None,
        names: Vec::new(),
    };
    let options = Options {
        node: "bench".to_owned(),
        socket: folder.join("page.socket"),
        metrics: None,
        page: Some(page),
        kinds: KINDS,
        calibration: None,
    };
    let listening = Listening::claim(&options)?;
    let url = listening.page().ok_or("the page has no address")?;
    let serving = listening.serve(handle.clone())?;
    let measure = || {
        let mut ratios = 0.0;
        for _ in 0..turns {
            let without = worker.cost()?;
            let page = Page::open(&url)?;
            ratios += worker.cost()? / without;
            page.close()?;
        }
        Ok(ratios / f64::from(turns))
    };
    let ratio = measure();
    serving.stop();
    ratio
}

/// The thread of the node's only worker.
struct Worker<'h> {
    handle: &'h Handle,
    schedule: PathBuf,
}

impl<'h> Worker<'h> {
    fn of_this_process(handle: &'h Handle) -> Result<Worker<'h>, Failure> {
        // A thread takes its name once it runs.
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            for thread in fs::read_dir("/proc/self/task")? {
                let thread = thread?.path();
                let name = fs::read_to_string(thread.join("comm")).unwrap_or_default();
                if name.trim() == "worker-0" {
                    return Ok(Worker { handle, schedule: thread.join("schedstat") });
                }
            }
            thread::sleep(Duration::from_millis(1));
        }
        Err("the thread of the worker is not there".into())
    }

    /// Nanoseconds of a core for each packet of a second.
    fn cost(&self) -> Result<f64, Failure> {
        let look = || -> Result<_, Failure> {
            let sent = self.handle.ask(|agent| agent.snapshot().sent())?;
            Ok((sent, Schedule::read(&self.schedule)?.running))
        };
        let (sent, running) = look()?;
        thread::sleep(SECOND);
        let (sent_then, running_then) = look()?;
        let packets = sent_then.saturating_sub(sent);
        if packets == 0 {
            return Err("the node under test forwards nothing: nothing to measure".into());
        }
        Ok((running_then - running).as_nanos() as f64 / packets as f64)
    }
}

/// A page that listens, in a thread of its own.
struct Page {
    connection: TcpStream,
    reads: thread::JoinHandle<()>,
}

impl Page {
    /// Opens it, and waits for what it is told first.
    fn open(url: &str) -> Result<Page, Failure> {
        let host = url.trim_start_matches("http://").trim_end_matches('/');
        let mut connection = TcpStream::connect(host)?;
        connection.set_read_timeout(Some(PATIENCE))?;
        write!(connection, "GET /v1/live HTTP/1.1\r\nHost: {host}\r\n\r\n")?;
        let mut lines = BufReader::new(connection.try_clone()?).lines();
        loop {
            let line = lines.next().ok_or("the page has closed its connection")??;
            if line.starts_with("data:") {
                break;
            }
        }
        // It ends when the connection does.
        let reads = thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Ok(Page { connection, reads })
    }

    fn close(self) -> Result<(), Failure> {
        self.connection.shutdown(Shutdown::Both)?;
        self.reads.join().map_err(|_| "the page's thread panicked".into())
    }
}
