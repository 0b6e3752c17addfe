//! Asks an instance of this machine, over its unix socket.

use super::socket::find;
use crate::say::complain;
use anyhow::{Context, Result, anyhow, bail};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, setsockopt, socket, sockopt};
use nix::sys::time::{TimeVal, TimeValLike};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

/// An instance that runs.
#[derive(Debug)]
pub struct Client {
    name: String,
    path: PathBuf,
    runtime: Runtime,
}

/// What an instance says when it does not do what it is asked.
#[derive(Deserialize)]
struct Refused {
    error: String,
}

impl Client {
    /// The instance of this name, or the only one that runs.
    ///
    /// # Errors
    /// There is none, or there are several and no name is given.
    pub fn find(name: Option<&str>) -> Result<Self> {
        let (name, path) = find(name)?;
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        Ok(Self { name, path, runtime })
    }

    /// The document at `path` as it came.
    ///
    /// # Errors
    /// The instance does not answer, or has no such document.
    pub fn text(&self, path: &str) -> Result<String> {
        let document = self.ask(Method::GET, path, Bytes::new())?;
        String::from_utf8(document.to_vec()).context(VERSION)
    }

    /// The document at `path`.
    ///
    /// # Errors
    /// As with [`Client::text`]; or it is another one.
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        serde_json::from_slice(&self.ask(Method::GET, path, Bytes::new())?).context(VERSION)
    }

    /// Has something done.
    ///
    /// # Errors
    /// The instance does not answer, or did not do it and says why.
    pub fn send<T: DeserializeOwned>(&self, method: Method, path: &str, body: Option<&Value>) -> Result<T> {
        let body = body.map(serde_json::to_vec).transpose()?.unwrap_or_default();
        serde_json::from_slice(&self.ask(method, path, body.into())?).context(VERSION)
    }

    fn ask(&self, method: Method, path: &str, body: Bytes) -> Result<Bytes> {
        let name = &self.name;
        let (patience, then) = match method {
            Method::GET => (ANSWER_WITHIN, "is its process stopped?"),
            _ => (CHANGE_WITHIN, "what it has not begun it will not do; `weir history` tells whether it did"),
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, "localhost")
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(body))?;
        let stream = match connect(&self.path) {
            Err(Errno::EAGAIN) => bail!("instance {name:?} lets nobody in within {UNEASY:?}: {then}"),
            stream => stream.with_context(|| format!("instance {name:?} has ended"))?,
        };
        let answer = self.runtime.block_on(async {
            let mut answer = pin!(exchange(stream, request));
            match timeout(UNEASY, answer.as_mut()).await {
                Ok(answer) => return Ok(answer),
                Err(_) if patience > ANSWER_WITHIN => complain(&format!(
                    "weir: instance {name:?} has not answered yet (is its process stopped?); waiting up to {patience:?}"
                )),
                // Whoever only looks is told soon enough.
                Err(_) => {}
            }
            timeout(patience.saturating_sub(UNEASY), answer).await
        });
        let (status, body) = match answer {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => bail!("instance {name:?} ended before it had answered: {error:#}"),
            Err(_) => bail!("instance {name:?} does not answer within {patience:?}: {then}"),
        };
        if status.is_success() {
            return Ok(body);
        }
        let refused: Option<Refused> = serde_json::from_slice(&body).ok();
        Err(refused.map_or_else(|| anyhow!("instance {name:?} answers {status}"), |why| anyhow!(why.error)))
    }
}

/// Connects, in its turn if many do: tokio would give up as soon as the listener's queue is full.
fn connect(path: &Path) -> nix::Result<StdUnixStream> {
    let socket = socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    setsockopt(&socket, sockopt::SendTimeout, &TimeVal::seconds(UNEASY.as_secs() as i64))?;
    nix::sys::socket::connect(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
    Ok(socket.into())
}

/// One request and its answer, on a connection of its own.
async fn exchange(stream: StdUnixStream, request: Request<Full<Bytes>>) -> Result<(StatusCode, Bytes)> {
    stream.set_nonblocking(true)?;
    let stream = UnixStream::from_std(stream)?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    // Ends with the connection, or with the runtime.
    tokio::spawn(connection);
    let answer = sender.send_request(request).await?;
    let status = answer.status();
    Ok((status, answer.into_body().collect().await?.to_bytes()))
}

const VERSION: &str = "the instance's answer cannot be read: is it another version of weir?";

/// How long an instance may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// How long it may take to change: longer than it waits for its workers.
const CHANGE_WITHIN: Duration = Duration::from_secs(15);

/// After what time without an answer whoever waits for a change is told: many ticks of the control loop.
const UNEASY: Duration = Duration::from_secs(3);
