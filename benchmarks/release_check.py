"""Check that a release works: build it, check it, install the wheel into a new environment and run its commands.

python -m benchmarks.release_check

The new environment sees the packages of the current one, so that nothing is downloaded. Where Python 3.12 or 3.13 are
installed without these packages, the sources are compiled, and the command shows its version.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

from adaptkry.common.version import VERSION, commit

ROOT = Path(__file__).parents[1]
SITE = sysconfig.get_path("purelib")
COMMANDS = (  # run in an empty folder, with the wheel only
    "adaptkry --help",
    "adaptkry datasets --json",
    "adaptkry fit csbm --splits 2 --epochs 5 --device cpu --out run --no-report",
    "adaptkry predict run csbm --out predictions.csv",
    "adaptkry compare csbm,csbm-directed --methods mlp --splits 2 --epochs 2 --device cpu --out table --format latex",
)


def main() -> None:
    """Build and check in a temporary folder; raise an error at the first failure."""
    with tempfile.TemporaryDirectory(prefix="adaptkry-release-") as name:
        folder = Path(name)
        run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder / "dist", ROOT)
        (wheel,), (archive,) = (folder / "dist").glob("*.whl"), (folder / "dist").glob("*.tar.gz")
        run(sys.executable, "-m", "twine", "check", "--strict", wheel, archive)
        check_content(wheel)
        check_commands(wheel, folder)
        check_other_versions(folder)
    print(f"the release {wheel.name} works")


def run(*words, cwd: Path | None = None) -> str:
    """Run a command and return what it prints; its output is shown if it fails."""
    texts = [str(word) for word in words]
    settings = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(texts, cwd=cwd or ROOT, env=settings, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(texts)} failed:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def check_content(wheel: Path) -> None:
    """Compare the modules and data of the wheel with those of the sources."""
    found = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    tracked = run("git", "ls-files", "src").split()
    expected = {path.removeprefix("src/") for path in tracked} | {"adaptkry/common/COMMIT"}
    if found != expected:
        raise SystemExit(f"the wheel must have the files of src/; it lacks or adds {sorted(found ^ expected)}.")


def check_commands(wheel: Path, folder: Path) -> None:
    """Install the wheel into a new environment, and run its commands there."""
    environment, work = folder / "environment", folder / "work"
    work.mkdir()
    run(sys.executable, "-m", "venv", "--without-pip", environment)
    python = environment / "bin" / "python"
    install = ("install", "--quiet", "--no-deps", "--no-index", "--disable-pip-version-check")
    run(sys.executable, "-m", "pip", "--python", python, *install, wheel)
    # the dependencies, but not the editable installation of the sources, which needs a .pth file of that folder
    (site,) = (environment / "lib").glob("python3*/site-packages")
    (site / "dependencies.pth").write_text(f"{SITE}\n")
    where = run(python, "-c", "import adaptkry; print(adaptkry.__file__)", cwd=work).strip()
    if not Path(where).is_relative_to(environment):
        raise SystemExit(f"the wheel must be imported from {environment}; got {where}.")
    version = run(environment / "bin" / "adaptkry", "--version", cwd=work).strip()
    if version != f"adaptkry {VERSION} (commit {commit()})":
        raise SystemExit(f"the wheel must know version {VERSION} and commit {commit()}; it prints {version}.")
    for command in COMMANDS:
        program, *words = command.split()
        run(environment / "bin" / program, *words, cwd=work)


def check_other_versions(folder: Path) -> None:
    """Compile the sources with other versions of Python, and let the command print its version."""
    shutil.copytree(ROOT / "src" / "adaptkry", folder / "sources" / "adaptkry")
    for version in ("3.12", "3.13"):
        python = shutil.which(f"python{version}")
        if python is None or subprocess.run([python, "--version"], capture_output=True, check=False).returncode:
            print(f"Python {version} is not installed: not checked")
            continue
        run(python, "-W", "error", "-m", "compileall", "-q", folder / "sources")
        start = (
            f"import sys; sys.path += [{str(folder / 'sources')!r}, {SITE!r}]; from adaptkry.cli import main; main()"
        )
        run(python, "-c", start, "--version")


if __name__ == "__main__":
    main()
