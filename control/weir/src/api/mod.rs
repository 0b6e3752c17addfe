//! The one way to ask a running instance and to change it: HTTP/JSON, over the unix socket that its name
//! stands for. `openapi.json` beside this file says what may be asked.
//!
//! * [`socket`]: who has which name, and where it is found.
//! * [`serve`]: a thread that lets clients in, and gives up on those that are slow, silent or too many.
//! * [`guard`]: who may do what over TCP; [`tls`] encrypts it.
//! * [`route`]: which path is answered by what; a new one is a line there.
//! * [`parameters`]: what is asked behind the `?`, and how a mistake in it is told.
//! * [`desk`]: where that thread and the control loop meet, which waits for no client.
//! * [`client`]: how `weir show`, `reload`, `set` and `history` ask.

pub mod client;
pub mod desk;
mod fault;
mod files;
pub mod guard;
mod parameters;
pub mod route;
pub mod serve;
pub mod socket;
pub mod tls;
