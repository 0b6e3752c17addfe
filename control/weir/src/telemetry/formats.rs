//! [`Delays`] for people, for spreadsheets, and for the tools of HdrHistogram.
//!
//! * `.hgrm`: the percentile text of HdrHistogram's `outputPercentileDistribution`, in microseconds.
//! * log: HdrHistogram's interval log, format 1.3: V2 compressed, in nanoseconds, each histogram with its tag.

use super::delays::{ALL_TINS, Delay, Delays, Kind, Until, Window};
use anyhow::{Context, Result, bail};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use std::fmt::Write as _;
use std::time::Duration;

/// The table that `weir hist` prints: each percentile, and where the packets lie.
pub fn table(delays: &Delays) -> String {
    let window = match delays.window {
        Window::Cumulative => "since the start",
        Window::Interval => "in the last interval",
    };
    let mut text = format!("how long packets took {window}, {:.1} s\n", delays.window_s);
    let mut rest = delays.histograms.as_slice();
    while let Some(first) = rest.first() {
        let same = |delay: &&Delay| (&delay.link, &delay.direction) == (&first.link, &first.direction);
        let (of_one, after) = rest.split_at(rest.iter().take_while(same).count());
        rest = after;
        let _ = write!(text, "\n{:<24}{:>12}", format!("{}/{}", first.link, first.direction), "packets");
        first.percentiles().iter().for_each(|(name, _)| text += &format!("{name:>9}"));
        let _ = writeln!(text, "  1us {:^12} 60s", "");
        Kind::ALL.into_iter().for_each(|kind| rows(&mut text, kind, of_one));
    }
    if delays.histograms.is_empty() {
        text += "nothing of what was asked for is there\n";
    }
    text
}

fn rows(text: &mut String, kind: Kind, of_one: &[Delay]) {
    for delay in of_one.iter().filter(|delay| delay.kind == kind) {
        let name = match &delay.tin {
            Some(tin) => format!("  {tin}"),
            None if kind == Kind::Total && delay.until == Until::Submission => {
                "total to submission".to_owned()
            }
            None => kind.to_string(),
        };
        let _ = write!(text, "{name:<24}{:>12}", delay.count);
        if delay.count == 0 {
            let unseen = kind == Kind::Residence && delay.until == Until::Submission && delay.tin.is_none();
            text.push_str(if unseen { "  the port shows no completions\n" } else { "\n" });
            continue;
        }
        delay.percentiles().iter().for_each(|(_, nanos)| text.push_str(&format!("{:>9}", time(*nanos))));
        let _ = writeln!(text, "  {}", bar(&delay.buckets));
    }
}

/// Where the packets lie between 1 us and 60 s, each column 2.4 times as far as the one before: the root of
/// their share, so that the few that are slow are seen.
fn bar(buckets: &[(u64, u64)]) -> String {
    let mut columns = [0_u64; COLUMNS];
    for (nanos, count) in buckets {
        let place = (*nanos as f64 / 1e3).max(1.0).log10() / 60e6_f64.log10() * COLUMNS as f64;
        if let Some(column) = columns.get_mut((place as usize).min(COLUMNS - 1)) {
            *column += count;
        }
    }
    let most = columns.iter().copied().max().unwrap_or(0).max(1) as f64;
    let mark = |count: u64| match count {
        0 => ' ',
        _ => MARKS[((count as f64 / most).sqrt() * (MARKS.len() - 1) as f64).round() as usize % MARKS.len()],
    };
    columns.into_iter().map(mark).collect::<String>().trim_end().to_owned()
}

/// A time to three digits.
pub fn time(nanos: u64) -> String {
    let (value, unit) = match nanos {
        nanos if nanos >= 1_000_000_000 => (nanos as f64 / 1e9, "s"),
        nanos if nanos >= 1_000_000 => (nanos as f64 / 1e6, "ms"),
        nanos => (nanos as f64 / 1e3, "us"),
    };
    let decimals = if value >= 99.95 { 0 } else { 1 + usize::from(value < 9.995) };
    format!("{value:.decimals$}{unit}")
}

/// One row for each bucket; `header` says what is in it.
pub fn csv(delays: &Delays, header: bool) -> String {
    let mut text = String::new();
    if header {
        text += "at,window_s,link,direction,tin,kind,until,value_ns,count,percentile\n";
    }
    for delay in &delays.histograms {
        let until = if delay.until == Until::Completion { "completion" } else { "submission" };
        let tin = delay.tin.as_deref().unwrap_or(ALL_TINS);
        let mut sum = 0;
        for (nanos, count) in &delay.buckets {
            sum += count;
            let percentile = 100.0 * sum as f64 / delay.count.max(1) as f64;
            let _ = writeln!(
                text,
                "{:.3},{:.3},{},{},{},{},{until},{nanos},{count},{percentile:.7}",
                delays.at,
                delays.window_s,
                quoted(&delay.link),
                delay.direction,
                quoted(tin),
                delay.kind
            );
        }
    }
    text
}

/// RFC 4180.
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

/// The percentiles of the one histogram that is there, in microseconds.
///
/// # Errors
/// There are several: this text has room for one.
pub fn hgrm(delays: &Delays) -> Result<String> {
    match delays.histograms.as_slice() {
        [delay] => hgrm_of(delay),
        [] => bail!("there is no such histogram: weir hist without options shows all"),
        several => bail!(
            "an hgrm has room for one histogram and {} are asked for: name one with --direction, --tin and --kind \
             (--tin all: all tins together), or a folder with --out, which gets a file for each",
            several.len()
        ),
    }
}

/// The percentiles of a histogram, in microseconds.
///
/// # Errors
/// A value out of bounds.
pub fn hgrm_of(delay: &Delay) -> Result<String> {
    let histogram = delay.to_hdr()?;
    let mut text =
        format!("{:>12} {:>14} {:>10} {:>14}\n\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)");
    let mut sum = 0;
    for step in histogram.iter_quantiles(TICKS_PER_HALF) {
        sum += step.count_since_last_iteration();
        let value = micros(step.value_iterated_to() as f64);
        let quantile = step.quantile_iterated_to();
        let _ = write!(text, "{value:>12.3} {quantile:>14.12} {sum:>10}");
        let _ =
            if quantile < 1.0 { writeln!(text, " {:>14.2}", 1.0 / (1.0 - quantile)) } else { writeln!(text) };
    }
    let _ = write!(
        text,
        "#[Mean    = {:>12.3}, StdDeviation   = {:>12.3}]\n\
         #[Max     = {:>12.3}, Total count    = {:>12}]\n\
         #[Buckets = {:>12}, SubBuckets     = {:>12}]\n",
        micros(histogram.mean()),
        micros(histogram.stdev()),
        micros(histogram.max() as f64),
        histogram.len(),
        buckets(&histogram),
        SUB_BUCKETS,
    );
    Ok(text)
}

fn micros(nanos: f64) -> f64 {
    nanos / 1e3
}

fn buckets(histogram: &Histogram<u64>) -> u32 {
    (histogram.high() / (SUB_BUCKETS << histogram.low().ilog2()))
        .checked_ilog2()
        .map_or(1, |octaves| octaves + 2)
}

/// The head of an interval log whose first interval begins at `start`, in seconds since 1970.
pub fn log_head(start: f64) -> String {
    format!(
        "#[weir {}: how long packets took, in nanoseconds; tags are link.direction.tin.kind]\n\
         #[Histogram log format version 1.3]\n\
         #[StartTime: {start:.3} (seconds since epoch)]\n\
         \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n",
        env!("CARGO_PKG_VERSION")
    )
}

/// A line for each histogram, to follow [`log_head`].
///
/// # Errors
/// A value out of bounds.
pub fn log_lines(delays: &Delays, start: f64) -> Result<String> {
    let seconds = |seconds: f64| Duration::from_secs_f64(seconds.max(0.0));
    let mut text = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let mut writer = IntervalLogWriterBuilder::new().begin_log_with(&mut text, &mut serializer)?;
    for delay in &delays.histograms {
        let (tag, histogram) = (delay.tag(), delay.to_hdr()?);
        writer
            .write_histogram(
                &histogram,
                seconds(delays.start - start),
                seconds(delays.window_s),
                Tag::new(&tag),
            )
            .map_err(|error| anyhow::anyhow!("{error}"))?;
    }
    String::from_utf8(text).context("an interval log is text")
}

/// Columns of [`bar`].
const COLUMNS: usize = 20;
const MARKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Percentiles told of each halving of what is left.
const TICKS_PER_HALF: u32 = 5;

/// Of three significant digits.
const SUB_BUCKETS: u64 = 2_048;

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::report::snapshot;
    use crate::telemetry::delays::tests::document;

    #[test]
    fn each_format_is_as_it_was() {
        let document = document();
        snapshot("hist_table.txt", &table(&document));
        let hgrm = hgrm_of(&document.histograms[4]).unwrap();
        snapshot("hist.hgrm", &hgrm);
        let csv = csv(&document, true);
        let head: String = csv.lines().take(12).map(|line| format!("{line}\n")).collect();
        snapshot("hist.csv", &head);
        let rows: usize = document.histograms.iter().map(|delay| delay.buckets.len()).sum();
        assert_eq!(csv.lines().count(), rows + 1);
        let several = super::hgrm(&document).unwrap_err().to_string();
        assert!(several.contains("5 are asked for") && several.contains("--tin"), "{several}");
    }

    /// Read back by the crate that wrote it; the independent reader is in `tests/hdr_log.rs`.
    #[test]
    fn the_log_reads_back() {
        use hdrhistogram::serialization::Deserializer;
        use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
        let document = document();
        let log = log_head(document.start) + &log_lines(&document, document.start).unwrap();
        let body: String =
            log.lines().filter(|line| !line.starts_with('"')).map(|line| format!("{line}\n")).collect();
        let mut read = Vec::new();
        for entry in IntervalLogIterator::new(body.as_bytes()) {
            let LogEntry::Interval(interval) = entry.unwrap() else { continue };
            let bytes = base64(interval.encoded_histogram());
            let histogram: Histogram<u64> = Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
            assert_eq!(
                (interval.start_timestamp(), interval.duration()),
                (Duration::ZERO, Duration::from_millis(12_500))
            );
            read.push((interval.tag().unwrap().as_str().to_owned(), histogram));
        }
        assert_eq!(read.len(), document.histograms.len());
        for ((tag, histogram), delay) in read.iter().zip(&document.histograms) {
            assert_eq!((tag, histogram), (&delay.tag(), &delay.to_hdr().unwrap()));
        }
        assert_eq!(read[3].0, "home.down.Best-Effort.sojourn");
    }

    /// Two intervals, as a reader finds them that shares no code with the writer.
    #[test]
    fn an_independent_reader_finds_every_figure_in_the_log() {
        let first = document();
        let second = Delays { at: 1_796_000_014.0, start: first.at, window_s: 1.5, ..document() };
        let mut log = log_head(first.start);
        for delays in [&first, &second] {
            log += &log_lines(delays, first.start).unwrap();
        }
        let file = std::env::temp_dir().join(format!("weir-hdr-{}.log", std::process::id()));
        std::fs::write(&file, log).unwrap();
        let reader = concat!(env!("CARGO_MANIFEST_DIR"), "/../../.ci/hdr-read");
        let read = std::process::Command::new(reader).arg(&file).output().unwrap();
        std::fs::remove_file(&file).unwrap();
        assert!(read.status.success(), "{reader}: {}", String::from_utf8_lossy(&read.stderr));
        let lines = String::from_utf8(read.stdout).unwrap();
        let found: Vec<serde_json::Value> =
            lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let expected: Vec<_> = [&first, &second]
            .into_iter()
            .flat_map(|delays| delays.histograms.iter().map(move |delay| (delays, delay)))
            .map(|(delays, delay)| {
                let hdr = delay.to_hdr().unwrap();
                serde_json::json!({
                    "tag": delay.tag(), "start_s": delays.start, "length_s": delays.window_s, "count": delay.count,
                    "p50": hdr.value_at_quantile(0.5), "p99": hdr.value_at_quantile(0.99),
                    "p999": hdr.value_at_quantile(0.999), "max": hdr.max(),
                })
            })
            .collect();
        assert_eq!(found, expected);
    }

    fn base64(text: &str) -> Vec<u8> {
        let digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let (mut bits, mut held, mut bytes) = (0_u32, 0, Vec::new());
        for digit in text.trim_end_matches('=').chars() {
            bits = bits << 6 | digits.find(digit).unwrap() as u32;
            held += 6;
            if held >= 8 {
                held -= 8;
                bytes.push((bits >> held) as u8);
            }
        }
        bytes
    }

    #[test]
    fn times_have_three_digits() {
        let times = [0, 511, 9_999, 12_345, 999_999, 24_500_000, 99_960_000, 60_000_000_000].map(time);
        assert_eq!(times, ["0.00us", "0.51us", "10.0us", "12.3us", "1000us", "24.5ms", "100ms", "60.0s"]);
    }
}
