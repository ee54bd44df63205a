"""`keel plugins`, `devices` and `doctor` beside plugins that end or hang their process, and
plugins that are hidden.

usage: broken_plugins.py KEEL TROUBLE_PLUGIN
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

keel, trouble = sys.argv[1:]
# seconds that a call may take which does not hang, in a slow build, too
PATIENCE = "3"
failed = []
ENDS = {"segv": "by signal 11", "kill": "by signal 9", "abort": "by signal 6",
        "exit": "with exit status 0", "exit7": "with exit status 7",
        "_exit": "with exit status 0", "hang": "had not returned from "}


def environment_of(trouble, **variables):
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith("KEEL_")}
    environment.update(KEEL_PLUGIN_PATH=folder, TROUBLE=trouble, **variables)
    # a sanitizer would make another end of what a signal or exit is
    for name in ["ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS"]:
        environment[name] = (environment.get(name, "")
                             + ":handle_segv=0:handle_abort=0:detect_leaks=0").lstrip(":")
    return environment


def run(*words, trouble="", **variables):
    return subprocess.run([keel, *words], env=environment_of(trouble, **variables),
                          capture_output=True, text=True, timeout=100, check=False)


def expect(what, holds, done):
    if not holds:
        failed.append(what)
        print(f"FAILED: {what}: status {done.returncode}\n{done.stdout}\n{done.stderr}")


def listed(done):
    """By file: what `keel plugins --json` says of it; empty where it is not JSON."""
    try:
        return {os.path.basename(row["path"]): row for row in json.loads(done.stdout)}
    except (json.JSONDecodeError, TypeError):
        return {}


def statuses(done):
    """Those of a, b and c; None where one is not listed."""
    rows = listed(done)
    return [rows.get(f"{name}.so", {}).get("status") for name in "abc"]


def one_broken(place, what):
    spoilt = f"b:{place}:{what}"
    limit = ["--limit", PATIENCE if what == "hang" else "60"]
    part = ENDS[what] if what == "hang" else f"it ended its process in {place}, {ENDS[what]}"
    part += place if what == "hang" else ""
    done = run("plugins", "--json", *limit, trouble=spoilt)
    rows = listed(done)
    expect(f"plugins, {spoilt}", done.returncode == 1
           and statuses(done) == ["OK", "ABORTED", "OK"] and part in rows["b.so"]["reason"], done)
    done = run("devices", "--json", *limit, trouble=spoilt)
    names = [row["name"] for row in json.loads(done.stdout or "[]")]
    expect(f"devices, {spoilt}", done.returncode == 1 and part in done.stderr
           and "a:0" in names and "c:0" in names and "b:0" not in names, done)
    if what == "hang" and place != "open":  # once will do, as it takes its time
        return
    done = run("ops", "--json", "--device", "a", *limit, trouble=spoilt)
    expect(f"ops, {spoilt}", done.returncode == 1 and part in done.stderr
           and "Add" in [row["op"] for row in json.loads(done.stdout or "[]")], done)


def every_broken():
    for place in ["load", "entry", "open", "device_count", "device_info", "close"]:
        for what in ["segv", "_exit", "hang"]:
            one_broken(place, what)
    for what in ["kill", "abort", "exit", "exit7"]:
        one_broken("open", what)


def two_broken():
    done = run("plugins", "--json", "--limit", PATIENCE,
               trouble="a:open:segv c:device_info:hang")
    expect("two broken", done.returncode == 1
           and statuses(done) == ["ABORTED", "OK", "ABORTED"], done)
    done = run("plugins", "--json", trouble="a:load:abort b:load:_exit c:load:segv")
    expect("all broken", done.returncode == 1 and statuses(done) == ["ABORTED"] * 3, done)


def broken_later():
    mark = os.path.join(folder, "mark")
    spoilt = f"c:open:segv b:open:second={mark}"
    done = run("plugins", "--json", trouble=spoilt)
    expect("broken the second time", done.returncode == 1
           and statuses(done) == ["OK", "ABORTED", "ABORTED"], done)


def told_once():
    """What one child has said, no other says again."""
    spoilt = "a:open:segv b:device_info:_exit c:close:segv"
    path = os.path.join(folder, "d.so")
    with open(path, "w", encoding="utf-8") as file:
        file.write("no library")
    for words in [["plugins"], ["devices"], ["ops"], ["ops", "--device", "nowhere"]]:
        done = run(*words, trouble=spoilt, KEEL_LOG="whisper", KEEL_VISIBLE_DEVICES="-nowhere")
        lines = done.stderr.splitlines()
        expect(f"{words}: each line once", done.returncode == 1 and len(lines) == len(set(lines))
               and sum('KEEL_LOG is "whisper"' in line for line in lines) == 1, done)
    os.remove(path)


def disturbed():
    for place in ["load", "open", "device_info", "close"]:
        done = run("plugins", "--json", trouble=f"b:{place}:print")
        rows = listed(done)
        expect(f"garbage in {place}", done.returncode == 0
               and rows.get("b.so", {}).get("status") == "OK", done)
    for spoilt in ["b:open:fork", "b:open:fork b:device_info:segv"]:
        done = run("plugins", "--json", trouble=spoilt)
        expect(f"what keeps pipes open, {spoilt}", done.returncode == ("segv" in spoilt)
               and len(listed(done)) >= 3, done)


def named():
    path = os.path.join(folder, "b.so")
    done = run("devices", "--json", "--plugin", path, trouble="b:open:segv")
    expect("a broken plugin that is named", done.returncode == 1 and path in done.stderr
           and "a:0" in [row["name"] for row in json.loads(done.stdout or "[]")], done)


def at_the_end():
    for what in ["segv", "hang"]:
        done = run("plugins", "--json", "--limit", PATIENCE, trouble=f"b:end:{what}")
        expect(f"broken as the process ends, {what}", done.returncode == 1
               and len(listed(done)) >= 3 and "exit handlers" in done.stderr, done)
    refused = os.path.join(folder, "refused")
    with open(refused, "w", encoding="utf-8") as file:
        file.write("no library")
    for what, status in [("_exit", 1), ("exit7", 1), ("print", 1)]:
        done = run("plugins", "--json", "--plugin", refused, trouble=f"b:end:{what}")
        expect(f"a refused file, and as the process ends {what}", done.returncode == status
               and listed(done).get("refused", {}).get("status") not in ["OK", None], done)
    for what, status in [("_exit", 0), ("exit7", 7)]:
        done = run("plugins", "--json", trouble=f"b:end:{what}")
        expect(f"nothing refused, and as the process ends {what}", done.returncode == status
               and len(listed(done)) >= 3, done)


def ended():
    """A signal ends the command, and with it what plugins have started, which has its standard
    error; one that is ignored does not."""
    spoilt = "b:open:fork b:open:print b:open:hang"
    for ignored, sent in [([], [signal.SIGINT]), ([], [signal.SIGTERM]), ([], [signal.SIGHUP]),
                          ([signal.SIGHUP], [signal.SIGHUP, signal.SIGTERM])]:
        def prepare(ignored=ignored):
            for each in [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]:
                signal.signal(each, signal.SIG_IGN if each in ignored else signal.SIG_DFL)
        with subprocess.Popen([keel, "plugins", "--limit", "0"], env=environment_of(spoilt),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              preexec_fn=prepare) as command:
            said = b""
            while b'"more' not in said:
                said += command.stderr.read(1) or b'"more'
            for each in sent:
                command.send_signal(each)
            try:
                command.communicate(timeout=30)
                left = False
            except subprocess.TimeoutExpired:
                left = True
            expect(f"{sent} with {ignored} ignored", command.returncode == -sent[-1] and not left,
                   subprocess.CompletedProcess("", command.returncode, said, left))


def devices_opened():
    for what in ["segv", "_exit", "hang"]:
        spoilt = f"b:device_open:{what}"
        words = ["--limit", PATIENCE if what == "hang" else "60"]
        done = run("devices", "--memory", *words, trouble=spoilt)
        expect(f"devices --memory, {spoilt}", done.returncode == 1 and "device_open" in done.stderr
               and "a:0" in done.stdout and "b:0" not in done.stdout, done)
        words = ["--limit", "5" if what == "hang" else "60", "--time", "0.01"]
        done = run("doctor", *words, trouble=spoilt)
        expect(f"doctor, {spoilt}", done.returncode == 1 and "device_open" in done.stdout
               and f"{folder}/b.so: ABORTED" in done.stdout
               and "  ok    c:0: multiplies" in done.stdout, done)


def own_time():
    """A library that hangs as it is looked for: that is Keel's time, and no plugin's."""
    elsewhere = os.path.join(folder, "elsewhere")
    os.mkdir(elsewhere)
    for name in ["cpu.so", "libdnnl.so.2"]:
        shutil.copy(trouble, os.path.join(elsewhere, name))
    done = run("doctor", "--only", "--plugin", os.path.join(elsewhere, "cpu.so"),
               "--limit", PATIENCE, "--time", "0", trouble="libdnnl:load:hang",
               LD_LIBRARY_PATH=elsewhere + ":" + os.environ.get("LD_LIBRARY_PATH", ""))
    expect("Keel's own time", "  none  libdnnl.so.2" in done.stdout
           and "  ok    cpu 1.0" in done.stdout and "ABORTED" not in done.stdout, done)


def hidden():
    """(variable, whether b.so is loaded, options)"""
    for visible, loads, words in [
            ("-b", False, []), ("a,c", False, []), ("a,c:0,-b", False, []), ("-b,a", False, []),
            ("b", True, []), ("-b:0", True, []), ("-b:1", True, []), ("a,nowhere", True, []),
            ("a", True, ["--option", "other.x=1"]), ("-b", False, ["--option", "a.x=1"])]:
        done = run("plugins", "--json", "--limit", "60", *words, trouble="b:load:segv",
                   KEEL_VISIBLE_DEVICES=visible)
        got = listed(done).get("b.so", {})
        expect(f"hidden by {visible} {words}", got.get("status") == ("ABORTED" if loads else "OK")
               and (loads or "not loaded" in got["reason"]), done)
    done = run("tune", "--device", "a", trouble="b:load:_exit", KEEL_VISIBLE_DEVICES="-b")
    expect("a command without a child process, and one hidden",
           done.returncode == 1 and "nothing to search for" in done.stderr, done)
    done = run("doctor", "--time", "0", trouble="b:load:segv", KEEL_VISIBLE_DEVICES="-b")
    expect("doctor, and one hidden", "b.so: its devices are hidden" in done.stdout, done)


def hidden_by_manifest():
    with open(os.path.join(folder, "m.json"), "w", encoding="utf-8") as file:
        json.dump({"library": os.path.join(folder, "b.so"), "name": "other"}, file)
    for visible, loads in [("a", False), ("-other", False), ("other", True), ("-b", True)]:
        done = run("plugins", "--json", "--only", "--plugin", os.path.join(folder, "m.json"),
                   trouble="b:load:segv", KEEL_VISIBLE_DEVICES=visible)
        if "built without cJSON" in done.stdout:
            return
        got = listed(done).get("b.so", {})
        expect(f"a manifest, and {visible}",
               got.get("status") == ("ABORTED" if loads else "OK"), done)


with tempfile.TemporaryDirectory() as folder:
    for name in "abc":
        shutil.copy(trouble, os.path.join(folder, f"{name}.so"))
    every_broken()
    two_broken()
    broken_later()
    told_once()
    disturbed()
    named()
    at_the_end()
    ended()
    devices_opened()
    own_time()
    hidden()
    hidden_by_manifest()
sys.exit(1 if failed else 0)
