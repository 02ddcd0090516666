//! Reads the report of ports that `ibnetdiscover -p` writes, with one line per port.
//!
//! ```text
//! CA     1  1 0x0002c90300000001 4x QDR - SW     2  1 0x0002c90200000000 ( 'node-0' - 'swA' )
//! SW     2  1 0x0002c90200000000 4x QDR - CA     1  1 0x0002c90300000001 ( 'swA' - 'node-0' )
//! SW     2  8 0x0002c90200000000 4x ???                                    'swA'
//! ```
//!
//! The columns are the type of the node, the LID, the port, the GUID, the width and the speed, and then the
//! type, LID, port and GUID of the other end. The GUID of an adapter is that of its port, so each port of an
//! adapter is a host.

use super::ibnetdiscover::Options;
use super::lids::Lids;
use super::notes::Notes;
use super::records::{self, Facts, Place, Records};
use super::scan::{Cursor, Lines};
use super::{ImportError, Wiring, clip, speed};

const FORM: &str =
    "the form is `CA 1 1 0x0002c90300000001 4x QDR - SW 2 1 0x0002c90200000000 ( 'node-0' - 'swA' )`";

/// Whether a line is one of this format.
pub(super) fn is_line(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let mut next = || words.next().unwrap_or("");
    let (kind, lid, port, guid, width) = (next(), next(), next(), next(), next());
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    matches!(kind, "CA" | "SW" | "RT")
        && is_number(lid)
        && is_number(port)
        && guid.starts_with("0x")
        && width.strip_suffix(['x', 'X']).is_some_and(is_number)
}

/// The columns that describe one end of a link.
struct End {
    is_switch: bool,
    lids: Option<Lids>,
    port: u16,
    guid: u64,
}

/// Reads the links; `origin` is the name of the file in error messages.
///
/// # Errors
/// If a line is malformed, a number is out of range, a link is listed with another port at one end, a name,
/// LID or GUID belongs to two nodes, or a link of unknown speed has no default rate.
pub fn parse(text: &str, origin: &str, options: Options) -> Result<Wiring, ImportError> {
    let notes = Notes::default();
    let mut records = Records::default();
    for line in Lines::of_output(text, origin, &notes) {
        let mut line = line?;
        line.skip_blanks();
        if line.rest.is_empty() || line.rest.starts_with('#') {
            continue;
        }
        let whole = line;
        let bad = || whole.error(format!("{} is not a line of `ibnetdiscover -p`; {FORM}", clip(whole.rest)));
        let here = end(&mut line, &notes)?.ok_or_else(bad)?;
        let (width, lane) = (line.word(), line.word());
        line.skip_blanks();
        if !line.take("- ") {
            // The port is down. Its switch may have other links.
            let name = line.rest.trim().trim_matches('\'');
            if here.is_switch && !name.is_empty() {
                records.node(&whole, facts(&here, name))?;
            }
            continue;
        }
        let there = end(&mut line, &notes)?.ok_or_else(bad)?;
        let rate = match lane.contains('?') {
            true => None,
            false => Some(speed::parse(&format!("{width}{lane}")).ok_or_else(|| {
                let (text, known) = (clip(&format!("{width} {lane}")), speed::KNOWN);
                whole.error(format!("the width and speed are {text}; the speed must be one of {known}"))
            })?),
        };
        let (name, far_name) = names(line.rest).ok_or_else(bad)?;
        let mut place = |end: &End, name| -> Result<Place, ImportError> {
            let node = records.node(&whole, facts(end, name))?;
            Ok(Place { node, port: end.port, guid: Some(end.guid), lids: end.lids })
        };
        let ends = [place(&here, name)?, place(&there, far_name)?];
        records.link(&whole, ends, rate, &notes)?;
    }
    let topology = records.topology(origin, options, &notes)?.topology;
    Ok(Wiring::new(topology, notes.texts()))
}

fn facts<'a>(end: &End, description: &'a str) -> Facts<'a> {
    Facts {
        key: end.guid,
        guid: end.is_switch.then_some(end.guid),
        is_switch: end.is_switch,
        ports: end.port,
        description,
        lids: end.lids,
    }
}

/// Takes the type, the LID, the port and the GUID of an end; `None` if the line ends before them.
fn end(line: &mut Cursor, notes: &Notes) -> Result<Option<End>, ImportError> {
    let is_switch = match line.word() {
        "SW" => true,
        "CA" | "RT" => false,
        _ => return Ok(None),
    };
    let (lid, port, guid) = (line.word(), line.word(), line.word());
    if guid.is_empty() {
        return Ok(None);
    }
    let lid = records::lid(line, lid, 10, notes)?;
    let port = records::port(line, port, 10)?;
    let guid = line.guid(guid)?;
    Ok(Some(End { is_switch, lids: lid.map(|base| Lids { base, lmc: 0 }), port, guid }))
}

/// The two names in `( 'node-0' - 'swA' )`, or without quotes.
fn names(text: &str) -> Option<(&str, &str)> {
    let inside = text.trim().strip_prefix('(')?.strip_suffix(')')?.trim();
    if let Some(quoted) = inside.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
        return quoted.split_once("' - '");
    }
    let (one, other) = inside.split_once(" - ")?;
    (!other.contains(" - ")).then(|| (one.trim(), other.trim()))
}
