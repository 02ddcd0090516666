//! Mutations for formats of lines and words. Parsers reject random bytes in the first line, so texts are
//! generated, or their lines and words are exchanged.

use libfuzzer_sys::fuzzer_mutate;
use silvan_engine::random::Stream;

/// The properties of a format that mutations need.
pub struct Format {
    /// Generates a text that is valid, or nearly so.
    pub draw: fn(&mut Stream) -> String,
    /// Words that can replace any other word.
    pub words: &'static [&'static str],
}

/// Numbers at the limits of the readers.
const NUMBERS: [&str; 16] = [
    "0",
    "1",
    "-1",
    "00",
    "254",
    "255",
    "256",
    "49151",
    "49152",
    "65535",
    "65536",
    "4294967296",
    "0x0",
    "0xffff",
    "18446744073709551615",
    "99999999999999999999999999999999999999999",
];

/// Mutates the text in `data[..size]` within `max_size`; returns its new size.
pub fn mutate(format: &Format, data: &mut [u8], size: usize, max_size: usize, seed: u32) -> usize {
    let random = &mut Stream::new(u64::from(seed), "mutate", 0);
    let old = std::str::from_utf8(&data[..size]);
    let text = match (random.below(16), old) {
        (0, _) => (format.draw)(random),
        (1, _) => edited((format.draw)(random), format, random),
        (2..10, Ok(text)) => edited(text.to_owned(), format, random),
        _ => return fuzzer_mutate(data, size, max_size),
    };
    let mut end = text.len().min(max_size);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    data[..end].copy_from_slice(&text.as_bytes()[..end]);
    end
}

fn edited(text: String, format: &Format, random: &mut Stream) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for _ in 0..=random.below(3) {
        edit(&mut lines, format, random);
    }
    lines.join("\n") + "\n"
}

fn at(length: usize, random: &mut Stream) -> usize {
    random.below(u32::try_from(length).unwrap_or(u32::MAX)) as usize
}

fn edit(lines: &mut Vec<String>, format: &Format, random: &mut Stream) {
    if lines.is_empty() {
        lines.push(String::new());
    }
    let (one, other) = (at(lines.len(), random), at(lines.len(), random));
    match random.below(12) {
        0 => drop(lines.remove(one)),
        1 => lines.insert(other, lines[one].clone()),
        2 => lines.swap(one, other),
        3 => {
            let block: Vec<String> = lines.drain(one.min(other)..one.max(other)).collect();
            let place = at(lines.len() + 1, random);
            lines.splice(place..place, block);
        }
        4 => lines.truncate(one + 1),
        5 => {
            let words: Vec<&str> = words(&lines[other]);
            let word = words.get(at(words.len(), random)).map_or(String::new(), |word| (*word).to_owned());
            replace_word(&mut lines[one], &word, random);
        }
        6 | 7 if !format.words.is_empty() => {
            replace_word(&mut lines[one], format.words[at(format.words.len(), random)], random);
        }
        8 => replace_word(&mut lines[one], NUMBERS[at(NUMBERS.len(), random)], random),
        9 => {
            let cut = boundary(&lines[one], random);
            let rest = lines[one].split_off(cut);
            if random.chance(1, 2) {
                lines.insert(one + 1, rest);
            }
        }
        _ => step_digit(&mut lines[one], random),
    }
}

/// The tokens of a line: sequences of letters, digits, hyphens, underscores and periods.
fn words(line: &str) -> Vec<&str> {
    line.split(|c: char| !is_of_word(c)).filter(|word| !word.is_empty()).collect()
}

fn is_of_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

fn replace_word(line: &mut String, with: &str, random: &mut Stream) {
    let old = words(line);
    let Some(&word) = old.get(at(old.len(), random)) else { return line.push_str(with) };
    let start = word.as_ptr() as usize - line.as_ptr() as usize;
    line.replace_range(start..start + word.len(), with);
}

fn boundary(line: &str, random: &mut Stream) -> usize {
    let wanted = at(line.len() + 1, random);
    (0..=wanted).rev().find(|&at| line.is_char_boundary(at)).unwrap_or(0)
}

/// Replaces one digit by a random one, which changes a port or a LID.
fn step_digit(line: &mut String, random: &mut Stream) {
    let digits: Vec<usize> =
        line.bytes().enumerate().filter(|(_, byte)| byte.is_ascii_digit()).map(|(at, _)| at).collect();
    if let Some(&place) = digits.get(at(digits.len(), random)) {
        line.replace_range(place..=place, &random.below(10).to_string());
    }
}
