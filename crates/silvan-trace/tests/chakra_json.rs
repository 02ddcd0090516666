//! Chakra traces in JSON, in both forms: the same trace as in binary form, and errors with their lines.

use std::io::{BufRead, Cursor};
use std::path::{Path, PathBuf};

use silvan_trace::error::TraceError;
use silvan_trace::read::{Format, Options, chakra, detect, read};
use silvan_trace::{Trace, write};

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/traces/chakra").join(name)
}

fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("silvan-chakra-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

fn in_goal(trace: &Trace) -> String {
    let mut text = Vec::new();
    write::text(trace, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

/// Reads one rank.
fn of(bytes: &[u8]) -> Result<Trace, TraceError> {
    chakra::read(1, &|_| Ok((Box::new(Cursor::new(bytes)), "t".to_owned())), &Options::default())
}

/// Encodes a field of a message.
fn part(number: u8, bytes: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2, u8::try_from(bytes.len()).unwrap()], bytes].concat()
}

#[test]
fn both_forms_describe_the_same_trace() {
    let options = Options::default();
    let graph = read(&sample("graph.0.json"), &options).unwrap();
    assert_eq!((graph.files.len(), graph.format), (2, Format::Chakra));
    for name in ["messages.0.json", "messages.1.json"] {
        assert_eq!(detect(&sample(name)).unwrap(), Format::Chakra);
        let messages = read(&sample(name), &options).unwrap();
        assert_eq!(in_goal(&messages.trace), in_goal(&graph.trace));
        assert_eq!(messages.trace.notes, graph.trace.notes);
    }
    // The ranks may have different forms, with an object per line, too.
    let lines = std::fs::read_to_string(sample("messages.0.json")).unwrap();
    let lines = lines.split('\n').collect::<String>().replace("}{", "}\n{");
    let graph_of_one = std::fs::read(sample("graph.1.json")).unwrap();
    let mixed = [lines.as_bytes(), &graph_of_one[..]];
    let open = |rank: usize| -> Result<(Box<dyn BufRead>, String), TraceError> {
        Ok((Box::new(Cursor::new(mixed[rank].to_vec())), "t".to_owned()))
    };
    assert_eq!(in_goal(&chakra::read(2, &open, &options).unwrap()), in_goal(&graph.trace));
}

#[test]
fn metadata_and_values_of_zero_may_be_missing() {
    let node = r#"{"name": "n", "type": "COMP_NODE", "durationMicros": "7"}"#;
    let texts =
        [node.to_owned(), format!("{{}}{node}"), format!(" [ {{ }} , {node}]\n"), format!("[{node}]\n\n")];
    let traces = texts.map(|text| {
        assert_eq!(detect(&file("one.json", text.as_bytes())).unwrap(), Format::Chakra, "{text}");
        in_goal(&of(text.as_bytes()).unwrap())
    });
    assert!(traces.iter().all(|trace| *trace == traces[0]), "{traces:?}");
    assert!(traces[0].contains("calc 7000"), "{}", traces[0]);
    let none = of(br#"{"version": "0.0.4", "attr": [{"name": "comm_size", "doubleVal": 0.5}]}"#).unwrap();
    assert_eq!(none.notes, [""; 0]);
}

#[test]
fn binary_metadata_may_have_the_length_of_a_brace() {
    // The first byte is the length of the metadata, which is the code of `{` or `[`. The first two bytes of a
    // file arrive before the others.
    for length in [b'{', b'['] {
        let metadata = part(1, &vec![b'x'; usize::from(length) - 2]);
        let node = [8, 1, 24, 4, 56, 7];
        let bytes = [&part(0, &metadata)[1..], &[node.len() as u8], &node].concat();
        let path = file("brace.et", &bytes);
        assert_eq!(detect(&path).unwrap(), Format::Chakra);
        let made = read(&path, &Options::default()).unwrap();
        assert!(in_goal(&made.trace).contains("calc 7000"));
    }
}

#[test]
fn the_first_node_in_binary_form_may_lack_its_number_and_its_name() {
    // After empty metadata: node 0 with and without a name.
    for node in [&[18, 1, b'n', 24, 4, 56, 7][..], &[24, 4, 56, 7], &[8, 1, 24, 4, 56, 7]] {
        let path = file("zero.et", &[&[0, node.len() as u8], node].concat());
        assert_eq!(detect(&path).unwrap(), Format::Chakra);
        assert!(in_goal(&read(&path, &Options::default()).unwrap().trace).contains("calc 7000"));
    }
}

#[test]
fn unused_attributes_of_any_type_are_noted() {
    let text = r#"{"version": "1"}
{"id": 1, "type": 4, "attr": [
 {"name": "a", "doubleVal": "NaN"}, {"name": "b", "floatVal": -1.5}, {"name": "c", "sint32Val": -3},
 {"name": "d", "bytesVal": "AA=="}, {"name": "e", "stringList": {"values": ["x"]}},
 {"name": "f", "sfixed64_list": {"values": ["1", "2"]}}, {"name": "g", "boolList": {"values": [false]}},
 {"name": "h", "int64Val": "-5"}, {"name": "i"}, {"name": "j", "stringVal": "text"}],
 "unknown": {"list": [1, [2]]}, "empty": {}, "zero": "0", "outputs": {}}"#;
    let made = of(text.as_bytes()).unwrap();
    assert_eq!(made.notes, ["not used: a, b, c, d, e, f, g, h, i, j, unknown"]);
}

/// Compares the error of a file with a part of it that names the place, the problem and what is valid.
fn fails(name: &str, text: &str, part: &str) {
    let path = file(name, text.as_bytes());
    let error = read(&path, &Options::default()).unwrap_err().to_string();
    assert!(error.contains(part), "{error} does not contain {part}");
    assert!(error.len() < 600, "{error}");
}

#[test]
fn wrong_graphs_are_reported() {
    let graph = |nodes: &str| format!("{{\"workload_graph\": [\n{nodes}]}}");
    let long = format!("{{\"workload_graph\": [], \"x\": \"{}\"}}", "a".repeat((1 << 20) + 1));
    let deep = format!("{{\"workload_graph\": [], \"x\": {}", "[".repeat(100_000));
    let many = graph(&format!("{{\"Id\": 1, \"NodeType\": 4, \"data_deps\": [{}1]}}", "1,".repeat(1 << 20)));
    let node = |keys: &str| graph(&format!("{{\"Id\": 1, \"NodeType\": 4, {keys}}}"));
    for (text, message) in [
        ("{\"workload_graph\": [", ":1: EOF while parsing"),
        ("{}", "this is JSON without the `workload_graph` of a Chakra trace, or its metadata and nodes"),
        ("[1]", "this is JSON without the `workload_graph` of a Chakra trace, or its metadata and nodes"),
        ("{\"schema\": \"1.0.2-chakra.0.0.4\", \"nodes\": []}", "this is an execution trace of PyTorch"),
        ("{\"traceEvents\": []}", "this is a trace of PyTorch's profiler"),
        ("{\"workload_graph\": 7}", ":1: invalid type: integer `7`, expected a list of nodes"),
        ("{\"workload_graph\": [], \"workload_graph\": []}", ":1: there is a second `workload_graph`"),
        (&graph("7"), ":2: invalid type: integer `7`, expected an object, which describes a node"),
        (&graph("{\"Id\": 1}"), ":2: node 1: its type is missing"),
        (&graph("{\"NodeType\": 4}"), ":2: a node has no `Id`, its number"),
        (&graph("{\"Id\": -1, \"NodeType\": 4}"), ":2: `-1` is not a whole number of at least 0"),
        (&graph("{\"Id\": 1.5, \"NodeType\": 4}"), ":2: `1.5` is not a whole number of at least 0"),
        (&graph("{\"Id\": \"x\", \"NodeType\": 4}"), ":2: `x` is not a whole number of at least 0"),
        (&graph("{\"Id\": 1, \"Id\": 1, \"NodeType\": 4}"), ":2: `Id` is given twice in a node"),
        (&graph("{\"Id\": 1, \"NodeType\": [4]}"), ":2: the type of a node is neither a code nor a name"),
        (&node("\"runtime\": 1, \"duration_micros\": 1"), ":2: `duration_micros` is given twice in a node"),
        (&node("\"data_deps\": 3"), ":2: invalid type: integer `3`, expected a list of numbers of nodes"),
        (&node("\"comm_size\": [1]"), ":2: comm_size is a list; must be one value"),
        (&node("\"comm_size\": \"many\""), ":2: comm_size is `many`; must be a number"),
        (&node("\"comm_size\": 1.5"), ":2: node 1: comm_size is 1.5; must be a whole number of at least 0"),
        (&node("\"involved_dim\": true"), ":2: involved_dim is one value; must be a list of true and false"),
        (&graph("{\"Id\": 1, \"NodeType\": 11}"), ":2: node 1: type 11 is not one of 1 to 10"),
        (&graph("{\"Id\": 1, \"NodeType\": 5}"), ":2: node 1: it communicates, but has no comm_size"),
        (
            &graph("{\"Id\": 1, \"NodeType\": 4, \"data_deps\": [2]}"),
            ":2: node 1 waits for node 2, which does not exist",
        ),
        (
            &graph("{\"Id\": 1, \"NodeType\": 4}, \n\n{\n\"Id\": 1,\n \"NodeType\": 4}"),
            ":4: node 1 is defined twice",
        ),
        (&(graph("") + "x"), ":2: trailing characters"),
        (&long, ":1: a string is longer than 1048576 bytes"),
        (&deep, ":1: more than 100 lists and objects are in each other"),
        (&many, ":2: a node waits for more than 1048576 nodes"),
    ] {
        fails("graph.json", text, message);
    }
}

#[test]
fn wrong_messages_are_reported() {
    let list = |nodes: &str| format!("[{{\"version\": \"1\"}},\n{nodes}]");
    let node = |attributes: &str| {
        format!("{{\"version\": \"1\"}}\n{{\"id\": \"1\", \"type\": \"COMP_NODE\", \"attr\": {attributes}}}")
    };
    for (text, message) in [
        ("[{\"version\": \"1\"}", ":1: EOF while parsing a list"),
        ("{\"version\": \"1\"}\n{\"id\": \"1\"", ":2: EOF while parsing an object"),
        ("{\"version\": \"1\"}\n{\"id\": \"1\"}", ":2: node 1: its type is missing"),
        ("{\"version\": \"1\"}\n\n{}", ":3: node 0: its type is missing"),
        ("{\"version\": \"1\"}\n{\"type\": \"COMP_NODE\"},\n", ":2: "),
        (
            "{\"version\": \"1\"}\n7",
            ":2: invalid type: integer `7`, expected an object, which describes a node",
        ),
        (
            "{\"version\": \"1\",\n \"nodes\": [1]}",
            ":2: the metadata has the key `nodes`; it has `version` and `attr`, and each node is an object of its own",
        ),
        (&list("7"), ":2: invalid type: integer `7`, expected an object, which describes a node"),
        (&(list("{\"type\": \"COMP_NODE\"}") + "{}"), ":2: trailing characters"),
        (
            &list("{\"type\": \"COMPUTE\"}"),
            ":2: type `COMPUTE` is not one of METADATA_NODE, MEM_LOAD_NODE, MEM_STORE_NODE, COMP_NODE, COMM_SEND_NODE, \
             COMM_RECV_NODE, COMM_COLL_NODE, STORAGE_NODE, BATCH_NODE, CHECKPOINT_NODE",
        ),
        (&list("{\"type\": \"INVALID_NODE\"}"), ":2: node 0: its type is missing"),
        (&list("{\"type\": 4, \"type\": 4}"), ":2: `type` is given twice in a node"),
        (
            &list("{\"type\": 4, \"dataDeps\": [], \"data_deps\": []}"),
            ":2: `data_deps` is given twice in a node",
        ),
        (&list("{\"type\": 4},\n{\n\"type\": 4}"), ":3: node 0 is defined twice"),
        (&list("{\"type\": 4, \"dataDeps\": [\"9\"]}"), ":2: node 0 waits for node 9, which does not exist"),
        (&list("{\"type\": \"COMM_SEND_NODE\"}"), ":2: node 0: it communicates, but has no comm_size"),
        (&node("{\"comm_size\": 5}"), ":2: invalid type: map, expected a list of attributes"),
        (&node("[5]"), ":2: invalid type: integer `5`, expected an attribute with a `name` and a value"),
        (&node("[{\"int64Val\": 5}]"), ":2: an attribute has no `name`"),
        (
            &node("[{\"name\": \"comm_size\", \"value\": 5}]"),
            ":2: an attribute has the key `value`; it has a `name` and a value, such as `int64Val` or `stringVal`",
        ),
        (
            &node("[{\"name\": \"comm_size\", \"int65Val\": 5}]"),
            ":2: an attribute has the key `int65Val`; it has a `name` and a value",
        ),
        (
            &node("[{\"name\": \"comm_size\", \"int64Val\": 5, \"int32Val\": 5}]"),
            ":2: an attribute has a second value, `int32Val`; it has one",
        ),
        (&node("[{\"name\": \"comm_size\", \"int64Val\": \"x\"}]"), ":2: int64Val is `x`; must be a number"),
        (
            &node("[{\"name\": \"comm_size\", \"int64Val\": [5]}]"),
            ":2: int64Val is a list; must be one value",
        ),
        (
            &node("[{\"name\": \"comm_size\", \"int64Val\": -5}]"),
            ":2: node 1: comm_size is -5; must be a whole number of at least 0",
        ),
        (
            &node("[{\"name\": \"is_cpu_op\", \"boolVal\": 7}]"),
            ":2: invalid type: integer `7`, expected a boolean",
        ),
        (
            &node(&format!("[{{\"name\": \"pg_name\", \"stringVal\": \"{}\"}}]", "g".repeat(256))),
            ":2: node 1: pg_name has more than 255 bytes",
        ),
    ] {
        fails("messages.json", text, message);
    }
}
