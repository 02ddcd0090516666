//! Parses text into node and port records, each with its line.

use silvan_engine::Rate;

use crate::lids::{self, Lids};
use crate::notes::Notes;
use crate::scan::{self, Cursor, Lines};
use crate::{ImportError, MAX_NODES, MAX_PORTS, clip, speed};

/// The identifier by which other lines refer to a node. The tools print `"S-<GUID>"`, padded or not;
/// hand-written netlists may use any text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Id<'a> {
    Guid(char, u64),
    Text(&'a str),
}

impl<'a> Id<'a> {
    fn new(text: &'a str) -> Self {
        let guid = |kind, rest: &str| {
            (rest.len() <= 16).then(|| scan::guid(rest)).flatten().map(|g| Self::Guid(kind, g))
        };
        ["S-", "H-", "R-"]
            .iter()
            .find_map(|prefix| guid(char::from(prefix.as_bytes()[0]), text.strip_prefix(prefix)?))
            .unwrap_or(Self::Text(text))
    }
}

/// A `Switch`, `Ca` or `Rt` line, with the port lines that follow it.
#[derive(Debug)]
pub(crate) struct Node<'a> {
    pub(crate) line: usize,
    pub(crate) is_switch: bool,
    pub(crate) ports: u16,
    pub(crate) id: Id<'a>,
    pub(crate) id_text: &'a str,
    pub(crate) description: &'a str,
    pub(crate) guid: Option<u64>,
    /// LID of a switch. Hosts have one LID per port instead.
    pub(crate) lids: Option<Lids>,
    pub(crate) links: Vec<Port<'a>>,
}

/// A port line: one end of a link.
#[derive(Debug)]
pub(crate) struct Port<'a> {
    pub(crate) line: usize,
    pub(crate) number: u16,
    pub(crate) guid: Option<u64>,
    pub(crate) peer: Id<'a>,
    pub(crate) peer_text: &'a str,
    pub(crate) peer_port: u16,
    pub(crate) peer_guid: Option<u64>,
    pub(crate) lids: Option<Lids>,
    pub(crate) rate: Option<Rate>,
}

/// Keys of lines without information about the topology.
const IGNORED_KEYS: [&str; 3] = ["vendid", "devid", "sysimgguid"];
const GUID_KEYS: [&str; 4] = ["switchguid", "caguid", "rtguid", "hcaguid"];
/// Beginnings of the heading lines that `ibnetdiscover -g` prints for chassis; these lines are ignored.
const IGNORED_STARTS: [&str; 3] = ["Chassis ", "Non-Chassis Nodes", "Hostname:"];

/// Reads all nodes.
pub(crate) fn nodes<'a>(
    text: &'a str,
    origin: &'a str,
    notes: &'a Notes,
) -> Result<Vec<Node<'a>>, ImportError> {
    let mut nodes: Vec<Node<'a>> = Vec::new();
    let mut guid = None;
    let mut open = false;
    for line in Lines::of_output(text, origin, notes) {
        let mut line = line?;
        line.skip_blanks();
        if line.rest.is_empty() {
            open = false;
        } else if line.rest.starts_with('#') || IGNORED_STARTS.iter().any(|s| line.rest.starts_with(s)) {
            continue;
        } else if line.rest.starts_with('[') {
            let node = nodes.last_mut().filter(|_| open).ok_or_else(|| {
                line.error(
                    "this port line belongs to no node; it must follow the `Switch`, `Ca` or `Rt` line of its node",
                )
            })?;
            if let Some(port) = port(line, node, notes)? {
                node.links.push(port);
            }
        } else if let Some((key, value)) = key_value(line.rest) {
            open = false;
            if GUID_KEYS.contains(&key) {
                guid = Some(node_guid(&line, key, value)?);
            } else if !IGNORED_KEYS.contains(&key) {
                let known = [&GUID_KEYS[..], &IGNORED_KEYS[..]].concat().join(", ");
                return Err(line.error(format!("{} is not a known key; known are {known}", clip(key))));
            }
        } else {
            let mut node = node(line, notes)?;
            node.guid = guid.take().or(match node.id {
                Id::Guid(_, guid) => Some(guid),
                Id::Text(_) => None,
            });
            nodes.push(node);
            open = true;
            if nodes.len() > MAX_NODES {
                return Err(
                    line.error(format!("there are more than {MAX_NODES} nodes, which is the maximum"))
                );
            }
        }
    }
    Ok(nodes)
}

/// Splits a setting such as "vendid=0x2c9" at the equals sign. `None` if the text before the sign is not a
/// valid key, as in a description that contains an equals sign.
fn key_value(text: &str) -> Option<(&str, &str)> {
    let (key, value) = text.split_once('=')?;
    let plain = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    plain.then_some((key, value))
}

/// Parses the GUID of a node: the first GUID in a value such as "0x2c90200000010(2c90200000010)".
fn node_guid(line: &Cursor, key: &str, value: &str) -> Result<u64, ImportError> {
    let end = value.find(|c: char| c == '(' || c == '#' || c.is_whitespace()).unwrap_or(value.len());
    let digits = &value[..end];
    scan::guid(digits).ok_or_else(|| {
        line.error(format!("{key} is {}; it must be a GUID such as 0x2c90200000010", clip(digits)))
    })
}

/// Parses a line such as `Switch 36 "S-..." # "name" enhanced port 0 lid 3 lmc 0` or `Ca 2 "H-..." # "name"`.
fn node<'a>(mut line: Cursor<'a>, notes: &Notes) -> Result<Node<'a>, ImportError> {
    let whole = line;
    let is_switch = line.take("Switch");
    let is_node = is_switch || ["Ca", "Hca", "Rt"].iter().any(|kind| line.take(kind));
    // A terminal may have removed the blank before the number.
    if !is_node || !line.rest.starts_with(|c: char| c.is_whitespace() || c.is_ascii_digit()) {
        return Err(whole.error(format!(
                "{} is not a line of `ibnetdiscover` output; expected a `Switch`, `Ca` or `Rt` line, a port line `[1] ...`, \
                 `key=value` or a comment",
                clip(whole.rest)
            )));
    }
    line.skip_blanks();
    let end = line.rest.find(|c: char| c.is_whitespace() || c == '"').unwrap_or(line.rest.len());
    let whole_word = line.rest.split_whitespace().next().unwrap_or("");
    let (count, rest) = line.rest.split_at(end);
    line.rest = rest;
    if count == ":" {
        return Err(line.error(
            "this is a list of nodes (`ibnetdiscover -l`, `ibhosts`, `ibswitches`), which has no links; use the output \
             of `ibnetdiscover` without options",
        ));
    }
    let ports = match count.parse() {
        Ok(ports) if (1..=MAX_PORTS).contains(&ports) => ports,
        _ => {
            let message = format!(
                "the number of ports is {}; it must be a number from 1 to {MAX_PORTS}",
                clip(whole_word)
            );
            return Err(line.error(message));
        }
    };
    line.skip_blanks();
    let quoted = quoted(&mut line, "the node's name")?;
    let id_text = quoted.trim();
    let (description, tail) = description(&line)?;
    let lids = if is_switch { own_lids(&line, tail, notes)? } else { None };
    Ok(Node {
        line: line.line,
        is_switch,
        ports,
        id: Id::new(quoted),
        id_text,
        description: if description.is_empty() { id_text } else { description },
        guid: None,
        lids,
        links: Vec::new(),
    })
}

/// Takes a text in double quotes, which must not be empty.
fn quoted<'a>(line: &mut Cursor<'a>, what: &str) -> Result<&'a str, ImportError> {
    if !line.take("\"") {
        return Err(
            line.error(format!("{what} must come next, in double quotes, instead of {}", clip(line.rest)))
        );
    }
    match line.until("\"") {
        Some(text) if text.trim().is_empty() => {
            Err(line.error(format!("{what} is empty; a valid one is \"S-0002c90200000010\"")))
        }
        Some(text) => Ok(text),
        None => Err(line.error(format!("{what} has no closing double quote: {}", clip(line.rest)))),
    }
}

/// The text after the `#` of a node line: the description, and the rest. A description may contain quotes,
/// so it ends at the last one.
fn description<'a>(line: &Cursor<'a>) -> Result<(&'a str, &'a str), ImportError> {
    let Some(comment) = comment(line)? else { return Ok(("", "")) };
    let Some(rest) = comment.strip_prefix('"') else {
        let end =
            [" enhanced port ", " base port ", " lid "].iter().filter_map(|word| comment.find(word)).min();
        let (name, tail) = comment.split_at(end.unwrap_or(comment.len()));
        return Ok((name.trim(), tail));
    };
    rest.rsplit_once('"')
        .map(|(name, tail)| (name.trim(), tail))
        .ok_or_else(|| line.error(format!("the description has no closing double quote: {}", clip(comment))))
}

/// The text after `#`, which only blanks may precede. `None` at the end of the line.
fn comment<'a>(line: &Cursor<'a>) -> Result<Option<&'a str>, ImportError> {
    let rest = line.rest.trim_start();
    match rest.strip_prefix('#') {
        Some(comment) => Ok(Some(comment.trim())),
        None if rest.is_empty() => Ok(None),
        None => Err(line.error(format!("{} is not valid here; expected `#` and the comment", clip(rest)))),
    }
}

/// Parses the node's own `lid N lmc M` from the text of a comment.
fn own_lids(line: &Cursor, text: &str, notes: &Notes) -> Result<Option<Lids>, ImportError> {
    let mut words = text.split_whitespace();
    let (mut lid, mut lmc) = (None, 0);
    while let Some(word) = words.next() {
        if word == "lid" && lid.is_none() {
            lid = Some(lids::lid(line, words.next().unwrap_or(""), notes)?);
        } else if word == "lmc" {
            lmc = lids::lmc(line, words.next().unwrap_or(""))?;
        }
    }
    lid.flatten().map(|lid| Lids::new(line, lid, lmc)).transpose()
}

/// Parses a port line; `None` if the port is not connected.
fn port<'a>(mut line: Cursor<'a>, node: &Node, notes: &Notes) -> Result<Option<Port<'a>>, ImportError> {
    let number = line.port(node.ports, "the port")?;
    external(&mut line);
    let guid = port_guid(&mut line)?;
    line.skip_blanks();
    if line.rest.is_empty() || line.rest.starts_with('#') {
        return Ok(None);
    }
    let peer_text = quoted(&mut line, "the node at the far end")?;
    // A netlist may omit the number of the far port if it is 1.
    let peer_port = if line.rest.starts_with('[') { line.port(MAX_PORTS, "the far port")? } else { 1 };
    external(&mut line);
    let peer_guid = port_guid(&mut line)?;
    let comment = comment(&line)?.unwrap_or("");
    // The description of the far end is between quotes, and words inside the quotes must not be parsed.
    let (before, after) = match (comment.find('"'), comment.rfind('"')) {
        (Some(first), Some(last)) if first < last => (&comment[..first], &comment[last + 1..]),
        (Some(_), _) => {
            return Err(line.error(format!("the description has no closing double quote: {}", clip(comment))));
        }
        _ => (comment, comment),
    };
    let lids = if node.is_switch { None } else { own_lids(&line, before, notes)? };
    Ok(Some(Port {
        line: line.line,
        number,
        guid,
        peer: Id::new(peer_text),
        peer_text,
        peer_port,
        peer_guid,
        lids,
        rate: rate(&line, after)?,
    }))
}

/// Skips the external port number of a chassis, such as "[ext 3]", if it comes next.
fn external(line: &mut Cursor) {
    let mut ahead = *line;
    if ahead.take("[ext ") && ahead.until("]").is_some() {
        *line = ahead;
    }
}

/// Parses a port GUID in parentheses, such as "(2c90300000001)", if it comes next.
fn port_guid(line: &mut Cursor) -> Result<Option<u64>, ImportError> {
    let mut ahead = *line;
    ahead.skip_blanks();
    if !ahead.take("(") {
        return Ok(None);
    }
    *line = ahead;
    let Some(text) = line.until(")") else {
        return Err(line.error(format!("the port GUID has no closing parenthesis: {}", clip(line.rest))));
    };
    let guid = scan::guid(text).ok_or_else(|| {
        line.error(format!("the port GUID is {}; a valid one is 2c90300000001", clip(text)))
    })?;
    Ok(Some(guid))
}

/// Finds the width and speed, such as "4xQDR", among the words after the far end's description, and returns
/// the rate. `None` if the words contain no rate, or an unknown one.
fn rate(line: &Cursor, text: &str) -> Result<Option<Rate>, ImportError> {
    let mut words = text.split_whitespace();
    while let Some(word) = words.next() {
        if word == "lid" || word == "lmc" {
            words.next();
        } else if word.contains("??") {
            // The port is down or unreadable, so the rate is unknown.
            return Ok(None);
        } else if word.starts_with(|c: char| c.is_ascii_digit()) {
            return speed::parse(word).map(Some).ok_or_else(|| {
                line.error(format!(
                    "the width and speed are {}; the width must be 1x, 2x, 4x, 8x or 12x and the speed one of {}",
                    clip(word),
                    speed::KNOWN
                ))
            });
        }
    }
    Ok(None)
}
