"""The files of the tree that somebody wrote."""
import pathlib
import subprocess


def files():
    """Paths from the current folder: what git tracks or would add; without a repository of
    its own (an archive), all but build/."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"],
                            capture_output=True, text=True, check=False)
    names = [name for name in listed.stdout.split("\0") if name] if not listed.returncode else []
    if "GLOSSARY.md" not in names:
        names = [str(p) for p in pathlib.Path(".").rglob("*")
                 if p.parts[0] not in ("build", ".git")]
    return sorted(name for name in names if pathlib.Path(name).is_file())
