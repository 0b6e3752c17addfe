//! Lets clients in and answers them, on one thread beside the control loop, on its CPU and never a worker's.
//!
//! What clients can cost is bounded: so many connections, so many bytes of a request, so long for each part
//! of it. Who comes when all places are taken gets that of the one who has been connected for longest and waits
//! for no answer.

use super::desk::{Bell, Peer};
use super::fault::Fault;
use super::guard::Guard;
use super::route;
use super::tls::Tls;
use anyhow::{Context, Result};
use axum::Router;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use config::model::Api;
use hyper::StatusCode;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use nix::poll::PollFlags;
use nix::unistd::{Uid, User};
use std::collections::VecDeque;
use std::net::{SocketAddr, TcpListener as StdTcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener as StdUnixListener;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::runtime::Builder;
use tokio::sync::{Notify, oneshot};
use tokio::task::{AbortHandle, yield_now};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

/// A TCP address that is listened on, and what keeps strangers out.
pub struct Door {
    listener: StdTcpListener,
    guard: Guard,
    tls: Option<Tls>,
}

impl Door {
    /// Listens where the configuration says, if it does.
    ///
    /// # Errors
    /// The address cannot be had, or a file of the token or of TLS is not as it must be.
    pub fn open(api: &Api) -> Result<Option<Self>> {
        let Some(address) = api.listen else { return Ok(None) };
        let tls = api.tls_cert.as_deref().zip(api.tls_key.as_deref());
        let tls = tls.map(|(cert, key)| Tls::open(cert, key)).transpose()?;
        let guard = Guard::new(api)?;
        let listener = StdTcpListener::bind(address).with_context(|| {
            format!("cannot listen on {address}, which is [api] listen: is another instance there?")
        })?;
        listener.set_nonblocking(true)?;
        Ok(Some(Self { listener, guard, tls }))
    }

    /// For a browser.
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let address = self.listener.local_addr().map(|address| address.to_string()).unwrap_or_default();
        format!("{scheme}://{address}/")
    }
}

/// The thread that serves; it ends when this is dropped.
#[derive(Debug)]
pub struct Server {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Answers those who connect, with what rings `bell`.
    ///
    /// # Errors
    /// The system's.
    pub fn start(unix: StdUnixListener, door: Option<Door>, bell: Bell) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        let router = route::router(bell);
        let inside = runtime.enter();
        let unix = UnixListener::from_std(unix)?;
        runtime.spawn(welcome_unix(unix, router.clone()));
        if let Some(Door { listener, guard, tls }) = door {
            let listener = TcpListener::from_std(listener)?;
            runtime.spawn(welcome_tcp(listener, Arc::new(guard), tls, router));
        }
        drop(inside);
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new()
            .name("weir-api".to_owned())
            // Until it is dropped; all that was spawned ends with the runtime.
            .spawn(move || drop(runtime.block_on(stopped)))
            .context("cannot start the thread that answers clients")?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        self.thread.take().map(JoinHandle::join);
    }
}

async fn welcome_unix(listener: UnixListener, router: Router) {
    let mut guests = Guests::new(UNIX_GUESTS);
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let peer = Peer { who: name(&stream), connection: kept(&stream, Peer::closed_unix()) };
                guests.welcome(|turn| attend(stream, peer, None, router.clone(), turn)).await;
            }
            // No file descriptor is free, for example.
            Err(_) => sleep(BREATH).await,
        }
    }
}

async fn welcome_tcp(listener: TcpListener, guard: Arc<Guard>, tls: Option<Tls>, router: Router) {
    let mut guests = Guests::new(TCP_GUESTS);
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                // An answer is one or two writes, none of which should wait for the other's acknowledgement.
                let _ = stream.set_nodelay(true);
                let (guard, router) = (guard.clone(), router.clone());
                let acceptor = tls.as_ref().map(Tls::acceptor);
                guests.welcome(|turn| attend_tcp(stream, address, acceptor, guard, router, turn)).await;
            }
            Err(_) => sleep(BREATH).await,
        }
    }
}

async fn attend_tcp(
    stream: TcpStream,
    address: SocketAddr,
    acceptor: Option<TlsAcceptor>,
    guard: Arc<Guard>,
    router: Router,
    turn: Arc<Turn>,
) {
    // Only whoever has the token can do anything that is noted.
    let peer =
        Peer { who: format!("{address} with the token"), connection: kept(&stream, Peer::closed_tcp()) };
    match acceptor {
        None => attend(stream, peer, Some(guard), router, turn).await,
        Some(acceptor) => {
            if let Ok(Ok(stream)) = timeout(HEADER_WITHIN, acceptor.accept(stream)).await {
                attend(stream, peer, Some(guard), router, turn).await;
            }
        }
    }
}

/// A connection that can still be looked at while its request is answered.
fn kept(stream: &impl AsFd, gone: PollFlags) -> Option<(Arc<OwnedFd>, PollFlags)> {
    Some((Arc::new(stream.as_fd().try_clone_to_owned().ok()?), gone))
}

/// Who the kernel says has connected.
fn name(stream: &UnixStream) -> String {
    let Ok(peer) = stream.peer_cred() else { return "somebody".to_owned() };
    let user = User::from_uid(Uid::from_raw(peer.uid())).ok().flatten();
    let user = user.map_or_else(|| format!("uid {}", peer.uid()), |user| user.name);
    match peer.pid() {
        Some(pid) => format!("{user} (pid {pid})"),
        None => user,
    }
}

/// Those who are connected.
#[derive(Debug)]
struct Guests {
    most: usize,
    /// In the order in which they came.
    inside: VecDeque<(AbortHandle, Arc<Turn>)>,
    answered: Arc<Notify>,
}

/// Whether one has asked, and waits for the answer.
#[derive(Debug)]
struct Turn {
    is_waiting: AtomicBool,
    answered: Arc<Notify>,
}

/// A request that is being answered, until this is dropped.
struct Answering(Arc<Turn>);

impl Guests {
    fn new(most: usize) -> Self {
        Self { most, inside: VecDeque::with_capacity(most), answered: Arc::default() }
    }

    /// Lets one in. If all places are taken, that of the first who does not wait for an answer becomes free;
    /// if everybody does, the next who is answered leaves.
    async fn welcome<F>(&mut self, attend: impl FnOnce(Arc<Turn>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.inside.retain(|(task, _)| !task.is_finished());
        while self.inside.len() >= self.most {
            let is_idle = |(_, turn): &(_, Arc<Turn>)| !turn.is_waiting.load(Ordering::Relaxed);
            match self.inside.iter().position(is_idle).and_then(|at| self.inside.remove(at)) {
                Some((task, _)) => task.abort(),
                None => self.answered.notified().await,
            }
        }
        let turn = Arc::new(Turn { is_waiting: AtomicBool::new(false), answered: self.answered.clone() });
        self.inside.push_back((tokio::spawn(attend(turn.clone())).abort_handle(), turn));
        // Each is heard before the next comes in: of those who come by the thousand only to leave again, none
        // is left to take the place of one who has yet to ask.
        yield_now().await;
    }
}

impl Answering {
    fn begin(turn: &Arc<Turn>) -> Self {
        turn.is_waiting.store(true, Ordering::Relaxed);
        Self(turn.clone())
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.is_waiting.store(false, Ordering::Relaxed);
        self.0.answered.notify_one();
    }
}

/// Answers the requests of one connection until it is closed, or has lasted long enough.
async fn attend<S>(stream: S, peer: Peer, guard: Option<Arc<Guard>>, router: Router, turn: Arc<Turn>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let router = TowerToHyperService::new(router);
    let service = service_fn(|mut request: Request<Incoming>| {
        let refused = guard.as_ref().and_then(|guard| guard.admit(&request).err());
        request.extensions_mut().insert(peer.clone());
        let answer = refused.map_or_else(|| Ok(router.call(request)), Err);
        let answering = Answering::begin(&turn);
        async move {
            let _answering = answering;
            match answer {
                Ok(answer) => timeout(REQUEST_WITHIN, answer).await.unwrap_or_else(|_| Ok(too_slow())),
                Err(fault) => Ok(fault.into_response()),
            }
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_WITHIN)
        .max_headers(HEADERS)
        .max_buf_size(BUFFER)
        .half_close(true)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    if timeout(CONNECTION, connection.as_mut()).await.is_err() {
        connection.as_mut().graceful_shutdown();
        let _ = timeout(FAREWELL, connection).await;
    }
}

fn too_slow() -> Response {
    let text = format!("the request did not come within {REQUEST_WITHIN:?}");
    Fault::new(StatusCode::REQUEST_TIMEOUT, text).into_response()
}

/// Connections to the unix socket at a time; only the owner can open one.
const UNIX_GUESTS: usize = 64;

/// Connections over TCP at a time, apart from those: strangers do not keep the owner out.
const TCP_GUESTS: usize = 64;

/// Bytes that a connection buffers each way, and so of a request's head at most.
const BUFFER: usize = 16 << 10;

/// Header fields of a request at most.
const HEADERS: usize = 64;

/// How long a request's head may take, the silence before it included.
const HEADER_WITHIN: Duration = Duration::from_secs(5);

/// How long a request may take, its body included: longer than a change does.
const REQUEST_WITHIN: Duration = Duration::from_secs(14);

/// How long a connection is kept: a client that goes on asking connects again.
const CONNECTION: Duration = Duration::from_secs(60);

/// How long a client may take to read its last answer.
const FAREWELL: Duration = Duration::from_secs(15);

/// What is waited after a connection could not be accepted.
const BREATH: Duration = Duration::from_millis(100);
