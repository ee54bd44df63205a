"""peers_run.py - shared by the files beside it: arguments, models, processes."""
import argparse
import json
import os
import subprocess
import sys


def parser_of(doc):
    parser = argparse.ArgumentParser(description=doc,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("keel")
    parser.add_argument("folder")
    parser.add_argument("results")
    parser.add_argument("names", nargs="*")
    return parser


def ports_of(folder):
    """Names of a model's inputs and outputs, and the inputs' files by name."""
    with open(os.path.join(folder, "io.json"), encoding="utf-8") as file:
        ports = json.load(file)
    files = {name: os.path.join(folder, f"input_{i}.npy")
             for i, name in enumerate(ports["inputs"])}
    return ports["outputs"], files


def measured(given, measure):
    """Writes what `measure` returns, of a name, a folder and older figures, for each model."""
    results = {}
    if os.path.exists(given.results):
        with open(given.results, encoding="utf-8") as file:
            results = json.load(file)
    names = given.names or sorted(
        name for name in os.listdir(given.folder)
        if os.path.exists(os.path.join(given.folder, name, "io.json")))
    for name in names:
        folder = os.path.join(given.folder, name)
        if not os.path.exists(os.path.join(folder, "io.json")):
            print(f"{name}: not in {given.folder}; peers_export.py makes it", file=sys.stderr)
            continue
        results[name] = measure(name, folder, results.get(name, {}))
        with open(given.results, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)


def keel_run(program, folder, threads, runs):
    """The command that runs a model."""
    command = [program, "run", os.path.join(folder, "model.onnx"), "--repeat", str(runs),
               "--device", "cpu:0", "--threads", str(threads)]
    for name, file in ports_of(folder)[1].items():
        command += ["--input", f"{name}={file}"]
    return command


def words_of(command, limit):
    """What a command prints, or None and its last word."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return None, f"takes more than {limit} s"
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        return None, lines[-1] if lines else f"exit status {done.returncode}"
    return done.stdout, None
