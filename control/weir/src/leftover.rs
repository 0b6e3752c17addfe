//! Sockets that a killed instance left behind. The drivers that serve one (vhost, memif,
//! virtio_user with `server=1`) refuse to start where a file is, and do not say so.

use config::model::Config;
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Removes the sockets that ports of `config` will serve and that nobody serves any more. Returns
/// the places of those that will be this instance's own, as nothing is there now.
pub fn sweep(config: &Config) -> Vec<PathBuf> {
    let ports = config.links.iter().flat_map(|link| [&link.a, &link.b]);
    let paths = ports.filter_map(|port| served(&port.device.devargs()).map(PathBuf::from));
    paths
        .filter(|path| {
            if is_dead(path) {
                let _ = std::fs::remove_file(path);
            }
            std::fs::symlink_metadata(path).is_err()
        })
        .collect()
}

/// The socket that the device will listen on.
fn served(devargs: &str) -> Option<&str> {
    let (name, args) = devargs.split_once(',')?;
    let arg = |key| args.split(',').filter_map(|arg| arg.split_once('=')).find(|(name, _)| *name == key);
    let is = |key, value| arg(key).is_some_and(|(_, given)| given == value);
    let (_, path) = match name.trim_end_matches(|c: char| c.is_ascii_digit()) {
        "net_vhost" if !is("client", "1") => arg("iface"),
        "net_memif" if is("role", "server") && is("socket-abstract", "no") => arg("socket"),
        "net_virtio_user" if is("server", "1") => arg("path"),
        _ => None,
    }?;
    Some(path)
}

fn is_dead(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket())
        && UnixStream::connect(path).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn only_sockets_that_are_served_are_looked_at() {
        for (devargs, path) in [
            ("net_vhost0,iface=/x,queues=1", Some("/x")),
            ("net_vhost0,iface=/x,client=1", None),
            ("net_memif1,role=server,id=0,socket=/x,socket-abstract=no", Some("/x")),
            ("net_memif1,role=client,id=0,socket=/x,socket-abstract=no", None),
            ("net_virtio_user0,path=/x,server=1", Some("/x")),
            ("net_virtio_user0,path=/x", None),
            ("net_tap0,iface=x", None),
            ("0000:01:00.0", None),
        ] {
            assert_eq!(served(devargs), path, "{devargs}");
        }
    }

    #[test]
    fn a_socket_that_is_served_and_a_file_that_is_none_stay() {
        let path = std::env::temp_dir().join(format!("weir-leftover-{}", std::process::id()));
        std::fs::write(&path, "a file").unwrap();
        assert!(!is_dead(&path));
        std::fs::remove_file(&path).unwrap();
        assert!(!is_dead(&path), "nothing is there");
        let listener = UnixListener::bind(&path).unwrap();
        assert!(!is_dead(&path), "it is served");
        drop(listener);
        assert!(is_dead(&path));
        std::fs::remove_file(&path).unwrap();
    }
}
