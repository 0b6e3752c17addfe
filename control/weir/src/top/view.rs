//! How it looks. Everything fits in 80 columns and 24 rows; what has no room is told of by a count, and comes
//! to sight with Tab and the arrows.

use crate::top::picture::{LcoreRow, Percentiles, Picture, QueueRow, RingRow, TalkerRow, shorten};
use crate::top::state::{Kind, Pane, State};
use crate::top::table::{Column, Row, Table};
use crate::top::units::{amount, clock, per_second, time};
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

/// Draws the state.
pub fn view(state: &State, frame: &mut Frame<'_>) {
    let area = frame.area();
    let buffer = frame.buffer_mut();
    let Some(inner) = area.height.checked_sub(2 - u16::from(state.is_still)) else { return };
    top_line(state, row(area, 0), buffer);
    if !state.is_still {
        bottom_line(state, row(area, area.height - 1), buffer);
    }
    let body = Rect { y: area.y + 1, height: inner, ..area };
    match &state.picture {
        _ if state.is_helping => help(body, buffer),
        Some(picture) => panes(state, picture, body, buffer),
        None => {
            let text = "waiting for the first reading";
            buffer.set_stringn(body.x, body.y, text, body.width.into(), Style::default());
        }
    }
}

fn row(area: Rect, row: u16) -> Rect {
    Rect { y: area.y + row, height: 1, ..area }
}

/// Who it is, and whether what is below is of now.
fn top_line(state: &State, area: Rect, buffer: &mut Buffer) {
    let width = usize::from(area.width);
    let left = match &state.picture {
        Some(picture) => format!(
            " weir {}  up {}  pid {}  every {}",
            picture.name,
            clock(picture.uptime_s),
            picture.pid,
            time(state.interval.as_nanos() as u64)
        ),
        None => " weir".to_owned(),
    };
    let (right, colour) = match &state.trouble {
        Some(trouble) => (format!("{trouble}; waiting "), Color::Red),
        None if state.is_paused => ("paused ".to_owned(), Color::Yellow),
        None => (String::new(), Color::Reset),
    };
    let right = shorten(&right, width * 2 / 3);
    let room = width.saturating_sub(right.chars().count());
    let line = format!("{:<room$}{right}", shorten(&left, room));
    let style = Style::default().add_modifier(Modifier::REVERSED | Modifier::BOLD);
    let style = if colour == Color::Reset { style } else { coloured(state, style, colour) };
    buffer.set_stringn(area.x, area.y, line, width, style);
}

/// What the keys do now.
fn bottom_line(state: &State, area: Rect, buffer: &mut Buffer) {
    let line = if state.is_typing {
        format!(" filter: {}_   Enter keeps it, Esc clears it", state.filter)
    } else {
        let filter = if state.filter.is_empty() { "filter" } else { &state.filter };
        format!(
            " q quit  ? help  Tab pane  h {}  s by {}  / {filter}  p {}",
            kind_name(state.kind),
            state.sort.name(),
            if state.is_paused { "go on" } else { "pause" }
        )
    };
    let width = usize::from(area.width);
    let style = Style::default().add_modifier(Modifier::REVERSED);
    buffer.set_stringn(area.x, area.y, format!("{:<width$}", shorten(&line, width)), width, style);
}

fn panes(state: &State, picture: &Picture, body: Rect, buffer: &mut Buffer) {
    let heights = heights(state, body.height);
    let mut y = body.y;
    for (pane, height) in Pane::ALL.into_iter().zip(heights) {
        let area = Rect { y, height, ..body };
        y += height;
        let has_focus = pane == state.focus && !state.is_still;
        let mut table = match pane {
            Pane::Queues => queues(state, picture),
            Pane::Rings => rings(state, picture),
            Pane::Lcores => lcores(picture),
            Pane::Talkers => talkers(state, picture, &state.talkers()),
        };
        (table.selected, table.has_focus) = (state.selected(pane), has_focus);
        let title = Style::default().add_modifier(Modifier::BOLD);
        let title = if has_focus { title.add_modifier(Modifier::UNDERLINED) } else { title };
        let chosen = Style::default().add_modifier(Modifier::REVERSED);
        table.draw(area, buffer, coloured(state, title, Color::Cyan), chosen);
    }
}

/// Rows of each pane, its titles included. Each gets a few; the one in focus is served first then, the last
/// one, which has most to show, gets what is left.
fn heights(state: &State, height: u16) -> [u16; 4] {
    let wants =
        Pane::ALL.map(|pane| state.rows(pane).min(MOST_ROWS) as u16 + u16::from(state.rows(pane) > 0));
    let mut given = [0; 4];
    let mut left = height;
    let mut give = |pane: usize, want: u16, given: &mut [u16; 4]| {
        let more = want.saturating_sub(given[pane]).min(left);
        given[pane] += more;
        left -= more;
    };
    for (pane, few) in [(3, 3), (0, 4), (1, 2), (2, 2)] {
        give(pane, wants[pane].min(few), &mut given);
    }
    give(state.focus as usize, wants[state.focus as usize], &mut given);
    for (pane, want) in wants.into_iter().enumerate().take(3) {
        give(pane, want, &mut given);
    }
    give(3, height, &mut given);
    given
}

fn queues<'a>(state: &State, picture: &'a Picture) -> Table<'a> {
    let rows = picture.queues.iter().map(|queue| {
        let [p50, p99, p999] = percentiles(queue.sojourn);
        let style = if queue.drops > 0.0 {
            coloured(state, Style::default(), Color::Yellow)
        } else {
            Style::default()
        };
        Row {
            name: Box::new(move |width| queue_name(queue, width)),
            cells: vec![
                amount(queue.rate),
                queue.limit.map_or("-".to_owned(), |limit| amount(limit as f64)),
                amount(queue.packets),
                amount(queue.backlog as f64),
                p50,
                p99,
                p999,
                per_second(queue.drops),
                per_second(queue.marks),
            ],
            style,
        }
    });
    table("QUEUE".to_owned(), &QUEUE_COLUMNS, rows.collect(), 18)
}

fn queue_name(queue: &QueueRow, width: usize) -> String {
    if queue.is_tin {
        format!("  {}", shorten(&queue.name, width.saturating_sub(2)))
    } else {
        queue.name.clone()
    }
}

fn rings<'a>(state: &State, picture: &'a Picture) -> Table<'a> {
    let rows = picture.rings.iter().map(|ring: &RingRow| {
        let [p50, p99, p999] = percentiles(ring.residence);
        let style = if ring.is_up { Style::default() } else { coloured(state, Style::default(), Color::Red) };
        Row {
            name: Box::new(
                move |_| if ring.is_up { ring.name.clone() } else { format!("{} DOWN", ring.name) },
            ),
            cells: vec![
                ring.limit.map_or("none".to_owned(), |limit| amount(limit.into())),
                amount(ring.in_flight as f64),
                p50,
                p99,
                p999,
                ring.drain_rate.map_or("-".to_owned(), |rate| amount(rate as f64)),
                ring.source.clone(),
            ],
            style,
        }
    });
    table("GOVERNOR".to_owned(), &RING_COLUMNS, rows.collect(), 18)
}

fn lcores(picture: &Picture) -> Table<'_> {
    let rows = picture.lcores.iter().map(|lcore: &LcoreRow| Row {
        name: Box::new(move |_| format!("lcore {}", lcore.lcore)),
        cells: vec![
            format!("{:.1}", lcore.busy),
            lcore.cycles.map_or("-".to_owned(), amount),
            amount(lcore.packets),
            per_second(lcore.gaps),
            format!("{:.1}", lcore.away),
            time(lcore.worst_us.saturating_mul(1_000)),
        ],
        style: Style::default(),
    });
    table("LCORE".to_owned(), &LCORE_COLUMNS, rows.collect(), 18)
}

fn talkers<'a>(state: &State, picture: &Picture, rows: &[&'a TalkerRow]) -> Table<'a> {
    let links = picture.queues.iter().filter(|queue| !queue.is_tin);
    let mut links = links.filter_map(|queue| queue.name.split('/').next());
    let first = links.next();
    let one_link = links.all(|link| Some(link) == first);
    let rows = rows.iter().map(|&row| {
        let way =
            if one_link { row.direction.rsplit('/').next().unwrap_or_default() } else { &row.direction };
        Row {
            name: Box::new(move |width| row.label(width)),
            cells: vec![
                way.to_owned(),
                amount(row.load.rate as f64),
                amount(row.load.error as f64),
                format!("{:.1}", 100.0 * row.load.share),
                time(row.load.delay_mean_us.saturating_mul(1_000)),
                time(row.load.delay_max_us.saturating_mul(1_000)),
            ],
            style: Style::default(),
        }
    });
    let filter = if state.filter.is_empty() { String::new() } else { format!(" /{}", state.filter) };
    let title = format!("{}{filter}", kind_name(state.kind).to_uppercase());
    let columns: &[Column] = if one_link { &TALKER_COLUMNS } else { &TALKER_COLUMNS_OF_LINKS };
    table(title, columns, rows.collect(), 44)
}

fn table<'a>(title: String, columns: &'a [Column], rows: Vec<Row<'a>>, needs: usize) -> Table<'a> {
    Table { title, columns, rows, needs, most: 2 * needs, selected: 0, has_focus: false }
}

fn percentiles(of: Option<Percentiles>) -> [String; 3] {
    match of {
        Some(Percentiles { p50, p99, p999 }) => [p50, p99, p999].map(time),
        None => ["-", "-", "-"].map(str::to_owned),
    }
}

const fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Flows => "flows",
        Kind::Senders => "senders",
        Kind::Receivers => "receivers",
    }
}

fn coloured(state: &State, style: Style, colour: Color) -> Style {
    if state.has_colour { style.fg(colour) } else { style }
}

fn help(area: Rect, buffer: &mut Buffer) {
    for (row, line) in HELP.lines().enumerate().take(area.height.into()) {
        buffer.set_stringn(area.x, area.y + row as u16, line, area.width.into(), Style::default());
    }
}

const fn column(title: &'static str, width: usize, leaves: u8) -> Column {
    Column { title, width, leaves }
}

const QUEUE_COLUMNS: [Column; 9] = [
    column("bit/s", 6, 0),
    column("of", 6, 4),
    column("pkt/s", 6, 6),
    column("backlog", 7, 3),
    column("p50", 6, 2),
    column("p99", 6, 0),
    column("p99.9", 6, 1),
    column("drop/s", 6, 0),
    column("mark/s", 6, 5),
];
const RING_COLUMNS: [Column; 7] = [
    column("limit", 6, 0),
    column("flight", 6, 2),
    column("p50", 6, 3),
    column("p99", 6, 0),
    column("p99.9", 6, 1),
    column("drains", 6, 4),
    column("completions", 16, 5),
];
const LCORE_COLUMNS: [Column; 6] = [
    column("busy %", 6, 0),
    column("cyc/pkt", 7, 1),
    column("pkt/s", 6, 2),
    column("gaps/s", 6, 3),
    column("away %", 6, 4),
    column("worst gap", 9, 0),
];
const TALKER_COLUMNS: [Column; 6] = talker_columns(4);
const TALKER_COLUMNS_OF_LINKS: [Column; 6] = talker_columns(12);

const fn talker_columns(way: usize) -> [Column; 6] {
    [
        column("way", way, 1),
        column("bit/s", 6, 0),
        column("+-", 6, 4),
        column("%", 5, 2),
        column("mean", 6, 3),
        column("max", 6, 0),
    ]
}

/// Rows of a pane beyond which it scrolls, however tall the terminal is.
const MOST_ROWS: usize = 1_000;

const HELP: &str = "
 Tab, left, right   the pane in which the arrows move; it gets more room
 up, down, PgUp,    its rows
 PgDn, Home, End
 h                  flows, hosts that send, hosts that receive
 s                  order: rate, mean delay, longest delay, name
 /                  only flows and hosts that contain a text; also \"up\" and \"down\"
 p, space           hold the picture; go on
 ?                  this page
 q, Esc             end

 QUEUE     a direction, its tins below: bit/s sent of the rate set (of a tin: above
           which it gives way), bytes that wait, how long packets waited
 GOVERNOR  what may lie and lies in the transmit ring in bytes, how long frames lay
           there, what the port drains at
 LCORE     time in turns that moved packets, time stamp cycles a packet took then,
           gaps over 50 us in the polling and the time lost in them
 +-        95 of 100 rates are off by no more: flows are estimated from a sample";
