//! The kernel's own disciplines as a peer: the same traffic inside User-Mode Linux, which boots in two seconds.
//!
//! The guest sees the host's files read-only (hostfs), so that its programs are the host's; it loads its modules, makes
//! two namespaces with a veth pair between them, runs the load and prints what it measured to its console. One
//! process tree on the host, no disk, no interface, gone with this one.
//!
//! What differs from weir's rig: one virtual CPU for everything and timers of the guest, so that idle pings differ too.

use std::fs;
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::clock::now;
use crate::iperf::Received;
use crate::ping::{Pinger, Sample};
use crate::process::{Process, Signal, command};
use crate::scenario::Run;
use crate::traffic::{Answers, CONGESTION, Class, IDLE, Loaded, OMIT};

/// What a run in the guest measured.
#[derive(Debug)]
pub struct Seen {
    /// Pings of all classes.
    pub answers: Answers,
    /// Before the load, seconds since 1970 by the guest's clock, which is the host's.
    pub idle: Range<f64>,
    /// Under load; what the interfaces saw is not read.
    pub loaded: Loaded,
}

/// TCP streams and pings inside the guest.
#[derive(Clone, Copy, Debug)]
pub struct Traffic<'a> {
    /// Of the pings.
    pub classes: &'a [Class],
    /// TCP streams up.
    pub up: u32,
    /// TCP streams down at the same time.
    pub down: u32,
}

/// Runs `traffic` over a veth pair with the discipline that `tc` makes on both ends (`DEV` stands for the interface).
///
/// # Errors
/// The guest does not boot, or prints something else.
pub fn tcp(run: &mut Run<'_>, tc: &[&str], traffic: Traffic<'_>) -> Result<Seen> {
    (run.say)("booting User-Mode Linux");
    let modules = modules()?;
    let folder = fs::canonicalize(run.folder).context("cannot find the run's folder")?;
    let script = folder.join(format!("{}-init.sh", run.case.name));
    let text = init(&modules, tc, traffic, run.seconds);
    fs::write(&script, text).with_context(|| format!("cannot write {}", script.display()))?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    let lines = boot(run, &script)?;
    read(&lines, traffic, run.seconds)
        .with_context(|| format!("User-Mode Linux printed something else; its init: {}", script.display()))
}

fn boot(run: &mut Run<'_>, init: &Path) -> Result<Vec<String>> {
    let mut guest = command("linux.uml");
    let umid = format!("hwtests{}", std::process::id());
    guest.args(["mem=512M", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", "quiet"]);
    guest.args(["con=null", "con0=null,fd:1", "uml_dir=/tmp/"]).arg(format!("umid={umid}"));
    guest.arg(format!("init={}", init.display()));
    let _folder = Folder(Path::new("/tmp").join(&umid));
    let log = init.with_extension("log");
    let mut guest = Process::spawn("User-Mode Linux", &mut guest, Some(&log))?;
    let began = now();
    let limit = began + Duration::from_secs(u64::from(run.seconds + OMIT)) + IDLE + PATIENCE;
    while guest.ended()?.is_none() {
        ensure!(
            now() < limit,
            "User-Mode Linux did not end within {PATIENCE:?} after its time; {}",
            log.display()
        );
        run.interrupt.sleep(Duration::from_millis(200))?;
        (run.say)(&format!("User-Mode Linux, {:.0} s", now().duration_since(began).as_secs_f64()));
    }
    let (_, lines) = guest.stop(Signal::TERM, Duration::from_secs(2))?;
    Ok(lines)
}

/// Where the guest's modules are.
fn modules() -> Result<PathBuf> {
    let folder = Path::new("/usr/lib/uml/modules");
    let mut versions = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let version =
        versions.next().context("no modules of User-Mode Linux: apt-get install user-mode-linux")??;
    Ok(version.path().join("kernel"))
}

fn init(modules: &Path, tc: &[&str], traffic: Traffic<'_>, seconds: u32) -> String {
    let Traffic { classes, up, down } = traffic;
    let shape: String = [("a", "va"), ("b", "vb")]
        .iter()
        .flat_map(|(netns, device)| {
            tc.iter().map(move |line| format!("ip netns exec {netns} tc {}\n", line.replace("DEV", device)))
        })
        .collect();
    let pings: String = classes
        .iter()
        .map(|class| {
            let tos = class.dscp << 2;
            format!("ip netns exec a ping -D -n -Q {tos} -i 0.020 192.0.2.2 >/run/ping.{} &\n", class.name)
        })
        .collect();
    let shown: String =
        classes.iter().map(|class| format!("echo '=== ping {0}'; cat /run/ping.{0}\n", class.name)).collect();
    let load = format!("--congestion {CONGESTION} --time {seconds} --omit {OMIT} --json");
    let client = |netns, peer, streams, name| match streams {
        0 => String::new(),
        _ => format!(
            "ip netns exec {netns} iperf3 --client {peer} --parallel {streams} {load} >/run/{name}.json &\n{name}=$!\n"
        ),
    };
    let (up, down) = (client("a", "192.0.2.2", up, "up"), client("b", "192.0.2.1", down, "down"));
    let (waits, results): (String, String) = [(&up, "up"), (&down, "down")]
        .iter()
        .filter(|(client, _)| !client.is_empty())
        .map(|(_, name)| (format!(" ${name}"), format!("echo '=== {name}'; cat /run/{name}.json\n")))
        .unzip();
    format!(
        "#!/bin/sh\n# Written by hwtests: init of a User-Mode Linux.\n\
         export PATH=/usr/sbin:/usr/bin:/sbin:/bin TMPDIR=/run LC_ALL=C\n\
         mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t tmpfs run /run; mount -t tmpfs tmp /tmp\n\
         for module in drivers/net/veth net/sched/sch_cake net/sched/sch_fq_codel net/sched/sch_htb; do\n  \
             insmod {0}/$module.ko\ndone\n\
         ip netns add a; ip netns add b\n\
         ip link add va netns a type veth peer name vb netns b\n\
         ip netns exec a ethtool -K va tso off gso off gro off >/dev/null\n\
         ip netns exec b ethtool -K vb tso off gso off gro off >/dev/null\n\
         ip -n a address add 192.0.2.1/24 dev va; ip -n b address add 192.0.2.2/24 dev vb\n\
         ip -n a link set lo up; ip -n b link set lo up; ip -n a link set va up; ip -n b link set vb up\n{shape}\
         for netns in a b; do\n  ip netns exec $netns iperf3 --server --one-off >/dev/null &\n  \
             until ip netns exec $netns ss -Hltn | grep -q 5201; do sleep 0.1; done\ndone\n\
         ip netns exec a ping -n -c 1 -W 5 192.0.2.2 >/dev/null\n{pings}sleep 0.5\n\
         echo \"=== idle $(date +%s.%N)\"; sleep {1}; echo \"=== load $(date +%s.%N)\"\n\
         {up}{down}wait{waits}\n\
         killall -INT ping 2>/dev/null || pkill -INT ping\nsleep 0.2\n{results}{shown}\
         echo '=== tc'; ip netns exec a tc -s qdisc show dev va\n\
         echo '=== end'\necho o >/proc/sysrq-trigger\nsleep 5\n",
        modules.display(),
        IDLE.as_secs(),
    )
}

fn read(lines: &[String], traffic: Traffic<'_>, seconds: u32) -> Result<Seen> {
    let Traffic { classes, up, down } = traffic;
    let lines: Vec<&str> = lines.iter().map(|line| line.trim_end_matches('\r')).collect();
    let stamp = |name: &str| -> Result<f64> {
        let line = lines.iter().find_map(|line| line.strip_prefix(&format!("=== {name} ")));
        line.and_then(|text| text.parse().ok()).with_context(|| format!("no \"=== {name}\""))
    };
    let section = |name: &str| -> Result<Vec<&str>> {
        let head = format!("=== {name}");
        let from = lines.iter().position(|line| *line == head).with_context(|| format!("no \"{head}\""))?;
        Ok(lines[from + 1..].iter().take_while(|line| !line.starts_with("=== ")).copied().collect())
    };
    section("end")?;
    let ways = [("up", up), ("down", down)].into_iter().filter(|(_, streams)| *streams > 0);
    let received = ways.map(|(name, _)| Received::parse(&section(name)?.join("\n")));
    let received = received.collect::<Result<Vec<_>>>()?;
    let (idle, load) = (stamp("idle")?, stamp("load")?);
    let from = load + f64::from(OMIT);
    let pings = |class: &Class| -> Result<(Class, Vec<Sample>)> {
        let lines = section(&format!("ping {}", class.name))?;
        Ok((*class, lines.into_iter().filter_map(Pinger::read).collect()))
    };
    Ok(Seen {
        answers: Answers::new(classes.iter().map(pings).collect::<Result<_>>()?),
        idle: idle..load,
        loaded: Loaded { span: from..from + f64::from(seconds), received, link: [f64::NAN; 2] },
    })
}

/// The guest's runtime folder; it takes it away itself unless it is killed.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Boot, and programs that share a CPU with everything else.
const PATIENCE: Duration = Duration::from_secs(40);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::{BEST_EFFORT, EF};

    #[test]
    fn a_console_is_read_section_by_section() {
        let iperf = "{\"end\": {\"streams\": [{\"receiver\": {\"bits_per_second\": 9e7}}],\r\n\
                     \"sum_received\": {\"bits_per_second\": 9e7}}}";
        let console = format!(
            "mmapper_init\r\n=== idle 100.0\r\n=== load 102.0\r\n=== up\r\n{iperf}\r\n=== down\r\n{iperf}\r\n\
             === ping be\r\n[104.5] 64 bytes from 192.0.2.2: icmp_seq=1 ttl=64 time=2.0 ms\r\n=== ping ef\r\n\
             === tc\r\nqdisc cake\r\n=== end\r\nreboot: Power down"
        );
        let lines: Vec<_> = console.split('\n').map(str::to_owned).collect();
        let traffic = |classes| Traffic { classes, up: 4, down: 4 };
        let seen = read(&lines, traffic(&[BEST_EFFORT, EF]), 4).unwrap();
        assert_eq!((seen.idle, seen.loaded.received[1].total), (100.0..102.0, 9e7));
        assert_eq!(seen.answers.within("be", &seen.loaded.span), [2.0]);
        let error = read(&lines[..3], traffic(&[BEST_EFFORT]), 4).unwrap_err().to_string();
        assert!(error.contains("=== end"), "{error}");
    }

    #[test]
    fn both_ends_are_shaped() {
        let traffic = Traffic { classes: &[EF], up: 4, down: 0 };
        let text = init(Path::new("/m"), &["qdisc add dev DEV root cake"], traffic, 8);
        assert!(text.contains(
            "exec a tc qdisc add dev va root cake\nip netns exec b tc qdisc add dev vb root cake\n"
        ));
        assert!(
            text.contains("-Q 184 ") && text.contains("--parallel 4 --congestion cubic --time 8 --omit 2")
        );
        assert!(text.contains("wait $up\n") && !text.contains("down"), "nothing goes down");
    }
}
