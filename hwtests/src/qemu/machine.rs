//! A virtual machine that boots, does one job and goes away: QEMU without hardware help (TCG).
//!
//! Its time is counted in instructions: a run repeats itself to the last bit, whatever else this machine does. Nothing
//! in it is random either: the processor has no such instructions, and QEMU's seed is always the same.
//!
//! A job is a shell script with files beside it, handed over in the initramfs. What it leaves in `/tmp/report` comes
//! back over a second serial port, its words go to the first. QEMU ends with this process (see [`crate::process`]);
//! it opens no port, no display and no network of the host.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::archive::Archive;
use super::image::Image;
use crate::clock::{Interrupt, now};
use crate::process::{Process, background, typed};

/// What to boot.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Memory in MiB.
    pub memory: u32,
    /// Network cards, in the order of their PCI addresses (see [`Machine::address`]).
    pub cards: Vec<Card>,
}

/// A network card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Card {
    /// What it emulates.
    pub model: Model,
    /// Cards of one number share a wire.
    pub wire: u8,
}

/// What QEMU emulates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// Intel 82576.
    Igb,
    /// Intel 82574L.
    E1000e,
}

/// What to do inside.
#[derive(Clone, Debug)]
pub struct Job<'a> {
    /// Run by a shell, in the folder of the files.
    pub script: &'a str,
    /// Names and contents of files beside it.
    pub files: &'a [(&'a str, &'a str)],
    /// Real time it may take, boot included.
    pub limit: Duration,
}

/// What a job brought.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The files of `/tmp/report`.
    pub reports: BTreeMap<String, Vec<u8>>,
    /// What the machine said.
    pub console: Vec<String>,
    /// Real time from start to end.
    pub took: Duration,
    /// QEMU as one would type it.
    pub command: String,
}

impl Machine {
    /// PCI address of card `index` inside: each has a bus of its own.
    pub fn address(index: usize) -> String {
        format!("0000:{:02x}:00.0", index + 1)
    }

    /// MAC address of card `index`, locally administered.
    pub fn mac(index: usize) -> String {
        format!("02:00:00:00:00:{:02x}", index + 1)
    }

    /// Boots `image`, has it do `job` and waits for its end; `tell` gets each line of the console.
    pub fn run(
        &self,
        image: &Image,
        job: &Job<'_>,
        tell: &mut dyn FnMut(&str),
        interrupt: &Interrupt,
    ) -> Result<Outcome> {
        let cache = image.initramfs.parent().context("an image lies in a folder")?;
        let folder = Folder::new(cache)?;
        let initramfs = folder.0.join("initramfs");
        let mut bytes = fs::read(&image.initramfs)
            .with_context(|| format!("cannot read {}", image.initramfs.display()))?;
        bytes.extend(packed(job)?);
        fs::write(&initramfs, bytes).with_context(|| format!("cannot write {}", initramfs.display()))?;
        let reports = folder.0.join("reports");
        let mut command = self.command(&image.vmlinuz, &initramfs, &reports);
        // Without this machine's folders: a report is read elsewhere.
        let here = std::env::current_dir().map_or(String::new(), |folder| format!("{}/", folder.display()));
        let typed = typed(&command).replace(&here, "");
        let began = now();
        let mut qemu = Process::spawn("qemu-system-x86_64", &mut command, None)?;
        let console = follow(&mut qemu, job.limit, tell, interrupt)?;
        let took = now() - began;
        let last = |lines: &[String]| lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n  ");
        let reports = unpacked(&fs::read(&reports).unwrap_or_default())
            .with_context(|| format!("the machine ended before its job did:\n  {}", last(&console)))?;
        let status = reports.get("status").map(|text| String::from_utf8_lossy(text).trim().to_owned());
        let status = status.unwrap_or_default();
        ensure!(status == "0", "the job in the machine failed ({status}):\n  {}", last(&console));
        Ok(Outcome { reports, console, took, command: typed })
    }

    fn command(&self, vmlinuz: &Path, initramfs: &Path, reports: &Path) -> Command {
        let mut command = background("qemu-system-x86_64");
        let text = format!(
            "-accel tcg,thread=single -icount shift={NANOSECONDS},sleep=off -rtc base=2026-01-01,clock=vm -seed 7 \
             -cpu max,-rdrand,-rdseed -smp 1 -machine q35,kernel-irqchip=split -m {} -nodefaults -display none \
             -no-reboot -monitor none -device intel-iommu,intremap=on,caching-mode=on \
             -chardev stdio,id=console,signal=off -serial chardev:console",
            self.memory
        );
        command.args(text.split_whitespace());
        command.arg("-chardev").arg(format!("file,id=reports,path={}", reports.display()));
        command.args(["-serial", "chardev:reports", "-kernel"]).arg(vmlinuz).arg("-initrd").arg(initramfs);
        command.args(["-append", KERNEL_ARGUMENTS]);
        for (index, card) in self.cards.iter().enumerate() {
            let model = card.model.name();
            let slot = index + FIRST_SLOT;
            command.arg("-netdev").arg(format!("hubport,id=net{index},hubid={}", card.wire));
            command
                .arg("-device")
                .arg(format!("pcie-root-port,id=port{index},chassis={slot},addr={slot:#x}"))
                .arg("-device")
                .arg(format!("{model},bus=port{index},netdev=net{index},mac={}", Self::mac(index)));
        }
        command
    }
}

impl Model {
    fn name(self) -> &'static str {
        match self {
            Self::Igb => "igb",
            Self::E1000e => "e1000e",
        }
    }
}

impl Outcome {
    /// A report as text; an error if the job left none.
    pub fn text(&self, name: &str) -> Result<String> {
        let bytes = self.reports.get(name).with_context(|| format!("the job left no report {name}"))?;
        Ok(String::from_utf8_lossy(bytes).into_owned())
    }
}

/// Reads the console to its end.
fn follow(
    qemu: &mut Process,
    limit: Duration,
    tell: &mut dyn FnMut(&str),
    interrupt: &Interrupt,
) -> Result<Vec<String>> {
    let end = now() + limit;
    let mut lines = Vec::new();
    loop {
        interrupt.check()?;
        let line = qemu.line(Duration::from_millis(20));
        let is_silent = line.is_none();
        if let Some(line) = line {
            let line = line.trim_end().to_owned();
            if !is_noise(&line) {
                tell(&line);
            }
            lines.push(line);
        }
        if now() > end {
            let from = lines.len().saturating_sub(TAIL_LINES);
            bail!(
                "the machine was not done after {limit:?}; its last lines:\n  {}",
                lines[from..].join("\n  ")
            );
        }
        if is_silent && let Some(status) = qemu.ended()? {
            ensure!(status.success(), "QEMU failed ({status}):\n  {}", lines.join("\n  "));
            return Ok(lines);
        }
    }
}

/// What QEMU and the kernel say of themselves.
fn is_noise(line: &str) -> bool {
    line.is_empty() || line.starts_with("qemu-system") || line.starts_with('[')
}

/// The job as an archive of its own; the kernel unpacks one after the other.
fn packed(job: &Job<'_>) -> Result<Vec<u8>> {
    let mut archive = Archive::default();
    archive.file("job/run", 0o755, job.script.as_bytes())?;
    for (name, content) in job.files {
        archive.file(&format!("job/{name}"), 0o644, content.as_bytes())?;
    }
    archive.finish()
}

/// Reads `@ NAME BYTES`, a line feed and so many bytes, again and again; none unless the last one is `status`.
fn unpacked(mut bytes: &[u8]) -> Option<BTreeMap<String, Vec<u8>>> {
    let mut reports = BTreeMap::new();
    while !bytes.is_empty() {
        let end = bytes.iter().position(|&byte| byte == b'\n')?;
        let head = std::str::from_utf8(&bytes[..end]).ok()?;
        let (name, len) = head.strip_prefix("@ ")?.split_once(' ')?;
        let content = bytes.get(end + 1..end + 1 + len.parse::<usize>().ok()?)?;
        reports.insert(name.to_owned(), content.to_vec());
        bytes = &bytes[end + 1 + content.len()..];
    }
    reports.contains_key("status").then_some(reports)
}

/// Where a run keeps its files; goes with it.
struct Folder(PathBuf);

impl Folder {
    /// A new one in `cache`, where those of runs that were killed are removed.
    fn new(cache: &Path) -> Result<Self> {
        for entry in fs::read_dir(cache).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if let Some(pid) = name.strip_prefix(RUN)
                && !fs::exists(format!("/proc/{pid}")).unwrap_or(true)
            {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        let path = cache.join(format!("{RUN}{}", std::process::id()));
        fs::create_dir(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Nothing better is left to do on an error.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// 2^n ns an instruction: 4, about what TCG does on a desktop, so that virtual time runs as fast as real time there.
const NANOSECONDS: u32 = 2;
/// What makes the guest repeat itself, beside quiet and a reset on panic that ends QEMU. Hugepages (of 2 MiB): vfio maps
/// them at once, and 256 MiB of small pages in 15 s.
const KERNEL_ARGUMENTS: &str = "console=ttyS0 quiet panic=-1 mitigations=off intel_iommu=on nokaslr norandmaps \
    random.trust_cpu=off hugepages=160";
/// Start of the name of a run's folder; its process id follows.
const RUN: &str = "run-";
/// Slots below are the chipset's own.
const FIRST_SLOT: usize = 2;
/// How much of the console goes into an error.
const TAIL_LINES: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_read_by_their_length() {
        let bytes = b"@ a.json 6\n@ b 1\n@ empty 0\n@ status 2\n0\n";
        let reports = unpacked(bytes).unwrap();
        assert_eq!(reports["a.json"], b"@ b 1\n");
        assert_eq!(reports["empty"], b"");
        assert_eq!(reports["status"], b"0\n");
    }

    #[test]
    fn a_report_that_stops_short_is_no_report() {
        for bytes in [&b""[..], b"@ a 3\nabc", b"@ status 2\n0", b"noise\n", b"@ status x\n"] {
            assert_eq!(unpacked(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn each_card_has_its_bus_and_its_wire() {
        let cards = vec![Card { model: Model::Igb, wire: 0 }, Card { model: Model::E1000e, wire: 3 }];
        let machine = Machine { memory: 512, cards };
        let typed = typed(&machine.command(Path::new("v"), Path::new("i"), Path::new("r")));
        assert!(typed.contains("-netdev hubport,id=net1,hubid=3"), "{typed}");
        assert!(typed.contains("-device e1000e,bus=port1,netdev=net1,mac=02:00:00:00:00:02"), "{typed}");
        assert!(typed.contains("-icount shift=2,sleep=off"), "{typed}");
        assert_eq!(Machine::address(1), "0000:02:00.0");
    }
}
