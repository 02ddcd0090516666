"""Tests watched runs: results are unchanged, only the page's address works, and the page shows the run."""

import contextlib
import http.client
import json
import re
import select
import socket
import subprocess
import sys
import threading
import time
from urllib.parse import urlsplit

import pytest

import silvan
from browser import browser
from conftest import ROOT, SMALL
from silvan.live import Recording, Server, page, recording
from silvan.live import server as live_server
from silvan.live.server import MOST_CONNECTIONS
from silvan.report import _roots

LOOPBACK = "127.0.0.1"


def get(address, path, **headers):
    """Return status, headers and content of a response."""
    connection = http.client.HTTPConnection(LOOPBACK, urlsplit(address).port, timeout=30)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()
    finally:
        connection.close()


def events(address, stop="end"):
    """Return the events of a stream up to one of the given kind."""
    connection = http.client.HTTPConnection(LOOPBACK, urlsplit(address).port, timeout=30)
    connection.request("GET", urlsplit(address).path + "events")
    answer = connection.getresponse()
    assert answer.getheader("Content-Type") == "text/event-stream; charset=utf-8"
    found = []
    while not found or found[-1][0] != stop:
        kind = answer.readline().decode().removeprefix("event: ").strip()
        data = json.loads(answer.readline().decode().removeprefix("data: "))
        assert answer.readline() == b"\n"
        found.append((kind, data))
    connection.close()
    return found


@pytest.fixture
def server():
    with Server("small <b>") as server:
        yield server


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", ["testbed", "torus-8x8", "hotspot-648"])
def test_a_watched_run_has_the_same_results(name, threads):
    given = {"duration": "200 us", "warmup": "0 s", "measure.interval": "10 us", "threads": threads}
    if name == "testbed":
        given |= {"duration": "3 ms", "flow.1.start": "0 s"}
    scenario = silvan.scenarios.load(name, given)
    seen = Recording()
    watched, alone = silvan.run(scenario, viewer=seen), silvan.run(scenario)
    assert watched.summary == alone.summary
    assert watched.account == alone.account
    assert list(watched.tables) == list(alone.tables)
    assert all(watched.csv(table) == alone.csv(table) for table in alone.tables)
    network, samples, end = seen.news(0)
    times = [json.loads(sample)["time_ns"] for sample in samples]
    step = json.loads(network)["interval_ns"]
    assert times == [step * (at + 1) for at in range(len(times))]
    assert times[-1] == watched.summary["simulated_ns"]
    assert end is None


def test_samples_are_those_of_the_tables():
    scenario = silvan.Scenario.from_toml(SMALL)
    seen = Recording()
    result = silvan.run(scenario, viewer=seen)
    network, samples, _ = seen.news(0)
    flows = result.numpy("flows")
    assert len(samples) > 10
    names = json.loads(network)["classes"]
    for text in samples[:: len(samples) // 7]:
        sample = json.loads(text)
        for at, name in enumerate(names):
            row = (flows["time_ns"] == sample["time_ns"]) & (flows["flow"] == name)
            assert sample["flow_received_bytes"][at] == flows["received_bytes"][row].item()


def test_a_long_run_sends_fewer_samples(monkeypatch):
    monkeypatch.setattr(recording, "MOST_SAMPLES", 7)
    seen = Recording()
    result = silvan.run(silvan.Scenario.from_toml(SMALL), viewer=seen)
    network, samples, _ = seen.news(0)
    assert 4 <= len(samples) <= 7
    times = [json.loads(sample)["time_ns"] for sample in samples]
    step = json.loads(network)["interval_ns"]
    assert times == [step * (at + 1) for at in range(len(times))]
    assert times[-1] > result.summary["simulated_ns"] - step


def test_an_error_of_a_viewer_stops_the_run():
    class Broken(Recording):
        def sample(self, text):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        silvan.run(silvan.Scenario.from_toml(SMALL), viewer=Broken())


def test_only_the_address_with_the_token_answers(server):
    path = urlsplit(server.url).path
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{24}/", server.url)
    status, headers, text = get(server.url, path)
    assert status == 200
    assert "<h1>small &lt;b&gt;</h1>" in text
    assert headers["Cache-Control"] == "no-store"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "Access-Control-Allow-Origin" not in headers
    wrong = [
        "/", "//", "", "/events", path[:-2] + "/", path[:-1] + "x/", "/" + "x" * 24 + "/", "/../" + path,
        f"{path}../", f"{path}..%2f..%2fetc/passwd", f"{path}/etc/passwd", f"{path}watch.js",
        f"{path}events/", f"{path}report", "/%C3%A4/", "http://127.0.0.1/" + path,
    ]  # fmt: skip
    for other in wrong:
        status, _, text = get(server.url, other)
        assert (status, text) == (404, "404 Not Found\n"), other


def test_other_host_names_are_refused(server):
    path = urlsplit(server.url).path
    for host in ("evil.example", "127.0.0.1.evil.example:80", "evil.example:127.0.0.1", "", "[::1].x"):
        assert get(server.url, path, Host=host)[0] == 403, host
        assert get(server.url, path + "events", Host=host)[0] == 403, host
    # A tunnel may use another port.
    for host in ("localhost:9999", "127.0.0.1", "[::1]:80", "[::1]"):
        assert get(server.url, path, Host=host)[0] == 200, host


def test_other_methods_are_refused(server):
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        connection = http.client.HTTPConnection(LOOPBACK, urlsplit(server.url).port, timeout=30)
        connection.request(method, urlsplit(server.url).path)
        assert connection.getresponse().status == 501
        connection.close()


def test_the_server_listens_on_the_loopback_interface_only(server):
    assert server._http.server_address[0] == LOOPBACK


def test_the_stream_has_the_whole_run_for_those_who_come_late(server):
    result = silvan.run(silvan.Scenario.from_toml(SMALL), viewer=server.recording)
    early = threading.Thread(target=lambda: found.extend(events(server.url)))
    found = []
    early.start()
    server.recording.finish(result)
    late = events(server.url)
    early.join()
    for seen in (found, late):
        kinds = [kind for kind, _ in seen if kind != "pulse"]
        assert kinds[0] == "network"
        assert kinds[-1] == "end"
        samples = [sample for kind, batch in seen if kind == "samples" for sample in batch]
        assert [json.dumps(one) for one in samples] == [
            json.dumps(json.loads(one)) for one in server.recording.news(0)[1]
        ]
    assert late[-1][1]["state"] == "done"
    assert late[-1][1]["account"] == result.account
    status, _, text = get(server.url, urlsplit(server.url).path + "report")
    assert status == 200
    assert " Silvan</title>" in text


def test_there_are_not_too_many_streams(server, monkeypatch):
    monkeypatch.setattr("silvan.live.server.MOST_STREAMS", 1)
    connection = http.client.HTTPConnection(LOOPBACK, urlsplit(server.url).port, timeout=30)
    connection.request("GET", urlsplit(server.url).path + "events")
    # The connection closes after its response.
    answer = connection.getresponse()
    assert answer.status == 200
    assert get(server.url, urlsplit(server.url).path + "events")[0] == 503
    answer.close()


def test_the_server_waits_until_the_last_viewer_has_gone(server, monkeypatch):
    monkeypatch.setattr("silvan.live.server.RETURN_S", 0.05)
    server.recording.fail("over")
    order = []

    def watch():
        connection = http.client.HTTPConnection(LOOPBACK, urlsplit(server.url).port, timeout=30)
        connection.request("GET", urlsplit(server.url).path + "events")
        answer = connection.getresponse()
        while b'"error": "over"' not in answer.readline():
            pass
        time.sleep(0.3)
        order.append("viewer")
        answer.close()
        connection.close()

    viewer = threading.Thread(target=watch)
    viewer.start()
    server.linger(30)
    order.append("server")
    viewer.join()
    assert order == ["viewer", "server"]


def test_the_server_does_not_wait_for_ever(server, monkeypatch):
    connection = http.client.HTTPConnection(LOOPBACK, urlsplit(server.url).port, timeout=30)
    connection.request("GET", urlsplit(server.url).path + "events")
    answer = connection.getresponse()
    server.linger(0.2)
    answer.close()
    # No client connects.
    monkeypatch.setattr("silvan.live.server.PATIENCE_S", 0.1)
    monkeypatch.setattr("silvan.live.server.RETURN_S", 0.1)
    with Server("other") as other:
        other.linger(600)


def test_the_command_serves_its_run_and_stops(small, tmp_path):
    arguments = ["run", small, "--watch", "--watch-limit", "60", "--out", tmp_path / "watched", "--json"]
    with subprocess.Popen(
        [sys.executable, "-m", "silvan.cli", *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        url = re.search(r"http://\S+", process.stderr.readline()).group()
        assert events(url)[-1][1]["state"] == "done"
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert json.loads(out)["scenario"] == "small"
    plain = silvan.run(small)
    saved = silvan.load(tmp_path / "watched")
    assert saved.summary == plain.summary
    assert all(saved.csv(table) == plain.csv(table) for table in plain.tables)


@pytest.fixture(scope="module")
def window(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("browser")) as window:
        yield window


def test_the_page_shows_a_run_while_it_progresses(window, server):
    half = threading.Event()

    class Slow(Recording):
        """Pauses in the middle of the run."""

        def sample(self, text):
            super().sample(text)
            if len(self._samples) == 10:
                assert half.wait(60)

    server.recording = Slow()
    scenario = silvan.scenarios.load("ecocc-trees", {"duration": "400 us", "warmup": "0 s"})
    done = []
    thread = threading.Thread(target=lambda: done.append(silvan.run(scenario, viewer=server.recording)))
    thread.start()
    try:
        window.open(server.url)
        window.wait("Watch.known() === 10 && Watch.at === 9")
        text = window.run("document.getElementById('state').textContent")
        assert text.startswith("Running: ")
        assert f" of {silvan_time(scenario)}" in text
        assert window.run("document.querySelectorAll('.chart').length") >= 3
        assert window.run("document.documentElement.scrollWidth") <= 1200
        # A step back is kept although more samples arrive.
        window.press("ArrowLeft")
        assert window.run("Watch.at") == 8
    finally:
        half.set()
        thread.join()
    server.recording.finish(done[0])
    window.wait("document.getElementById('state').textContent.startsWith('The run has ended')")
    _, samples, _ = server.recording.news(0)
    assert window.run("Watch.known()") == len(samples) > 10
    assert window.run("Watch.at") == 8
    shown = window.run("document.getElementById('account').textContent")
    assert all(line.replace("`", "") in shown for line in done[0].account)
    assert any("`" in line for line in done[0].account)
    assert "`" not in shown
    sample = "(n) => ({ trees: [], tree_links: Array.from({ length: n }, (_, at) => [at, 1, 0, 1]) })"
    pair = f"[[0, 0], [0, 26]].map((counts) => counts.map({sample}))"
    compared = window.run(
        f"Sentence.ofTwo([0, 1].map(() => ({{ classes: [] }})), {pair}, ['No control', 'EcoCC'])"
    )
    assert compared == " With EcoCC: on average 13 waiting links instead of 0, 0 victims instead of 0."
    # After the end of the run, roots have the letters of the report.
    assert window.run("[...Watch.roots.keys()]")[:2] == list(_roots.of(done))[:2]
    assert window.run("Watch.lookOf(" + json.dumps(next(iter(_roots.of(done)))) + ")") == [0, "A"]
    window.press("End")
    window.wait(f"Watch.at === {len(samples) - 1}")
    links = window.run("Watch.sides[0].live.now.samples[Watch.at].tree_links.length")
    assert links == len(json.loads(samples[-1])["tree_links"]) > 0
    assert window.run("Watch.end") == pytest.approx(done[0].summary["simulated_ns"] / 1e3)
    window.run("document.querySelector('#state a').removeAttribute('target')")
    window.run("document.querySelector('#state a').click()")
    window.wait("document.querySelector('.summary') !== null")
    port = urlsplit(server.url).port
    assert all(url.startswith(f"http://{LOOPBACK}:{port}/") for url in window.requests)
    assert [text for text in window.complaints if "favicon" not in text and "404" not in text] == []


def silvan_time(scenario):
    return f"{scenario.duration_ns / 1e3:g} µs"


def test_the_page_of_a_failed_run_says_why(window, server):
    silvan.run(silvan.Scenario.from_toml(SMALL), viewer=server.recording)
    server.recording.fail("a deadlock at 1 ms")
    window.open(server.url)
    window.wait("!document.getElementById('wrong').hidden")
    assert window.run("document.getElementById('wrong').textContent") == "a deadlock at 1 ms"


def test_names_of_a_scenario_are_no_markup(window, server):
    text = SMALL.replace('name = "F1"', 'name = "<img src=x onerror=alert(1)>"')
    assert text != SMALL
    server.recording.finish(silvan.run(silvan.Scenario.from_toml(text), viewer=server.recording))
    window.open(server.url)
    assert "<img src=x" in window.run("document.getElementById('charts').textContent")
    assert window.run("document.querySelectorAll('img').length") == 0


@pytest.fixture
def notebook(monkeypatch):
    """Replace the parts of a notebook that `silvan.watch` needs, and record what it displays."""
    pytest.importorskip("anywidget", reason="anywidget is not installed")
    import IPython.core.getipython
    import IPython.display

    shown = []
    monkeypatch.setattr(IPython.core.getipython, "get_ipython", object)
    monkeypatch.setattr(IPython.display, "display", shown.append)
    return shown


def parts(widget):
    return [event for at in range(widget.count) for event in json.loads(getattr(widget, f"part_{at}"))]


def test_a_notebook_shows_a_run(notebook, window, tmp_path):
    scenario = silvan.scenarios.load("ecocc-trees", {"duration": "400 us", "warmup": "0 s"})
    result = silvan.watch(scenario, height=700, seed=3)
    assert result.summary == silvan.run(scenario, seed=3).summary
    (widget,) = notebook
    sent = parts(widget)
    assert next(kind for kind, _ in sent) == "network"
    assert sent[-1][0] == "end"
    # The module of the widget in a page, with a model that contains the state of the widget.
    state = {key: getattr(widget, key) for key in ("page", "height", "count")}
    state |= {f"part_{at}": getattr(widget, f"part_{at}") for at in range(widget.count)}
    module = widget._esm if isinstance(widget._esm, str) else str(widget._esm)
    # The data must not contain the end tag of its element.
    data = json.dumps(state).replace("<", "\\u003c")
    (tmp_path / "page.html").write_text(
        f"<!doctype html><html><meta charset=utf-8><body><script>const state = {data};"
        + module.replace("export default", "const widget =")
        + "widget.render({model: {get: (key) => state[key], on() {}, off() {}}, el: document.body});"
        "document.documentElement.dataset.ready = 'yes';</script>",
        encoding="utf-8",
    )
    window.open(tmp_path / "page.html")
    (frame,) = window.call("Page.getFrameTree")["frameTree"]["childFrames"]
    context = window.call("Page.createIsolatedWorld", frameId=frame["frame"]["id"])["executionContextId"]

    def inside(script):
        found = window.call("Runtime.evaluate", expression=script, contextId=context, returnByValue=True)
        return found["result"].get("value")

    end = time.monotonic() + 60
    while not (inside("document.getElementById('state')?.textContent") or "").startswith("The run has ended"):
        assert time.monotonic() < end
        time.sleep(0.05)
    assert result.account[0] in inside("document.getElementById('account').textContent")
    assert inside("document.querySelectorAll('.chart canvas').length") >= 3
    assert inside("document.documentElement.dataset.ready") == "yes"


def test_a_notebook_shows_errors(notebook):
    text = SMALL.replace("[topology]", "[topology]\n")
    with pytest.raises(silvan.ScenarioError):
        silvan.watch(silvan.Scenario.from_toml(text), topology__left="many")

    def stop(*_, is_last=False):
        if is_last:
            return
        raise KeyboardInterrupt

    import silvan.live.widget as module

    original, module._Sender.send = module._Sender.send, stop
    try:
        with pytest.raises(KeyboardInterrupt):
            silvan.watch("testbed", duration="60 s")
    finally:
        module._Sender.send = original


def test_without_a_notebook_the_message_names_the_command():
    with pytest.raises(RuntimeError, match="silvan run --watch"):
        silvan.watch("testbed")


def test_the_page_allows_only_its_own_scripts():
    for source, connect in ((page.EVENTS, "'self'"), (page.MESSAGES, "'none'")):
        text = page.html("x", source)
        policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text).group(1)
        assert f"connect-src {connect};" in policy
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert not re.search(r"<(script|link|img)[^>]+(src|href)=", text)


def test_the_scripts_of_the_page_are_in_the_package():
    from importlib import resources

    live = {path.name for path in resources.files("silvan.live").iterdir() if path.name.endswith(".js")}
    assert live == {*page.OF_VIEWERS, "watch.js", "widget.js"}
    assert (ROOT / "python" / "silvan" / "live" / "viewer.css").is_file()


def test_connections_are_limited(server, monkeypatch):
    monkeypatch.setattr(live_server, "REQUEST_S", 600)
    idle = [socket.create_connection((LOOPBACK, urlsplit(server.url).port)) for _ in range(80)]
    try:
        deadline = time.monotonic() + 5
        refused = []
        while len(refused) < 80 - MOST_CONNECTIONS and time.monotonic() < deadline:
            refused, _, _ = select.select(idle, [], [], 0.1)
        # The server has closed the further ones, and waits for requests on the others.
        assert len(refused) == 80 - MOST_CONNECTIONS
        assert all(one.recv(1) == b"" for one in refused)
    finally:
        for one in idle:
            one.close()
    time.sleep(0.5)
    assert get(server.url, urlsplit(server.url).path)[0] == 200


def test_a_request_must_be_complete_in_time(monkeypatch):
    monkeypatch.setattr(live_server, "REQUEST_S", 0.5)
    with Server("small") as server, socket.create_connection((LOOPBACK, urlsplit(server.url).port)) as slow:
        slow.settimeout(10)
        started = time.monotonic()
        # Each byte arrives in time, but not the request.
        with contextlib.suppress(OSError):
            while time.monotonic() - started < 8:
                slow.sendall(b"G")
                if select.select([slow], [], [], 0.1)[0]:
                    break
        assert time.monotonic() - started < 4
        # A viewer whose request is complete stays connected.
        with contextlib.closing(http.client.HTTPConnection(LOOPBACK, urlsplit(server.url).port)) as viewer:
            viewer.request("GET", urlsplit(server.url).path + "events")
            answer = viewer.getresponse()
            time.sleep(1.5)
            assert answer.readline().startswith(b"event: ")


def test_malformed_requests_have_the_headers_of_all_responses(server):
    port = urlsplit(server.url).port
    for request in (
        b"POST / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /" + b"a" * 70_000 + b"\r\n\r\n",
    ):
        with socket.create_connection((LOOPBACK, port)) as connection:
            connection.sendall(request)
            answer = b"".join(iter(lambda: connection.recv(4096), b""))
        assert b"X-Content-Type-Options: nosniff" in answer, answer[:200]
        assert b"Content-Security-Policy: frame-ancestors 'none'" in answer


#: Starts a watched run with few file descriptors; every descriptor that is free is taken when the run ends.
CROWDED = """\
import os, resource, sys
from silvan.commands import run
from silvan.live import Server
from silvan import cli

taken = []
close = Server.close
def free(self):
    close(self)
    while taken:
        os.close(taken.pop())
Server.close = free
write = run._write
def crowded(*arguments):
    if not taken and not hasattr(run, "done"):
        run.done = True
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        try:
            while True:
                taken.append(os.dup(0))
        except OSError:
            pass
    return write(*arguments)
run._write = crowded
sys.argv = ["silvan", *sys.argv[1:]]
cli.main()
"""


def test_connections_cannot_cost_the_results(small, tmp_path):
    arguments = ["run", small, "--watch", "--watch-limit", "0", "--out", tmp_path / "run"]
    done = subprocess.run(
        [sys.executable, "-c", CROWDED, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    assert silvan.load(tmp_path / "run").summary["simulated_ns"] > 0


@pytest.mark.parametrize("limit", [40, 64])
def test_idle_connections_do_not_cost_the_results(small, tmp_path, limit):
    command = f"ulimit -n {limit}; exec {sys.executable} -m silvan.cli run {small} --watch --watch-limit 0"
    settings = "--set 'duration=400 ms' --set 'measure.interval=10 ms'"
    with subprocess.Popen(
        ["sh", "-c", f"{command} {settings} --out {tmp_path / 'run'}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:
        address = re.search(r"http\S+", process.stderr.readline())[0]
        idle = []
        with contextlib.suppress(OSError):
            for _ in range(66):
                idle.append(socket.create_connection((LOOPBACK, urlsplit(address).port), timeout=1))
        process.stderr.read()
        for one in idle:
            one.close()
    assert process.returncode == 0
    assert silvan.load(tmp_path / "run").summary["simulated_ns"] == 400_000_000
