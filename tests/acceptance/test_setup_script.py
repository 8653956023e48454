"""Set-up as a newcomer meets it: the real scripts, with stand-ins for the Pythons that a machine may have."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
TOOLS = ("cat", "cksum", "date", "dirname", "find", "grep", "mkdir", "mv", "rm", "sed", "sh", "sleep", "sort")

# Stands in for Python, for `python -m venv`, and for the pip and uv of what that makes. It notes each installation,
# keeps it waiting as long as the file $HELD_BY exists, and fails those that $BROKEN names. Only the real Python
# can take the file lock.
PYTHON_STAND_IN = """#!/bin/sh
case "$*" in
    *fcntl*) exec "{real_python}" "$@" ;;
    *ensurepip*) echo "{version} {makes_venvs} $0" ;;
    *sys.version_info*) echo "{version}" ;;
    '-m venv'*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" && echo "version = {version}" >"$3/pyvenv.cfg" ;;
    *--version*) ;;
    *)
        echo "$*" >>"{log}"
        while [ -e "${{HELD_BY:-}}" ]; do sleep 0.01; done
        case "$*" in *"${{BROKEN:-nothing is broken}}"*) exit 1 ;; esac
        ;;
esac
"""


class Machine:
    """A machine of our making: its PATH holds the tools that the scripts use and the Pythons that a test puts there."""

    def __init__(self, home: Path) -> None:
        self.bin = home / "bin"
        self.bin.mkdir(parents=True)
        self.log = home / "installations.log"
        self.log.touch()
        for tool in (*TOOLS, "cp"):
            (self.bin / tool).symlink_to(shutil.which(tool) or pytest.fail(f"this test needs {tool}"))
        self.checkout = home / "a check out"
        shutil.copytree(CHECKOUT / "scripts", self.checkout / "scripts")
        (self.checkout / ".python-version").write_text("3.13\n")
        (self.checkout / "pyproject.toml").write_text("[project]\n")
        (self.checkout / "requirements.lock").write_text("anyio==4.0 \\\n    --hash=sha256:0\n")
        self.environment = {"PATH": str(self.bin), "HOME": str(home)}

    def has_python(self, where: str, version: str, makes_venvs: str = "yes") -> Path:
        path = self.bin.parent / where if "/" in where else self.bin / where
        path.parent.mkdir(parents=True, exist_ok=True)
        script = PYTHON_STAND_IN.format(
            real_python=sys.executable, version=version, makes_venvs=makes_venvs, log=self.log
        )
        path.write_text(script)
        path.chmod(0o755)
        return path

    def run(self, script: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", f"scripts/{script}"],
            cwd=self.checkout,
            env=self.environment | environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def start(self, script: str, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["sh", f"scripts/{script}"],
            cwd=self.checkout,
            env=self.environment | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def find_python(self, **environment: str) -> str:
        return self.run("find-python.sh", **environment).stdout.strip()

    def set_up(self, **environment: str) -> subprocess.CompletedProcess[str]:
        return self.run("setup.sh", **environment)

    def installations(self) -> list[str]:
        """What was installed since the last look."""
        lines = self.log.read_text().splitlines()
        self.log.write_text("")
        return lines


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "ho me")


@pytest.fixture
def ready(machine: Machine) -> Machine:
    machine.has_python("python3.13", "3.13.2")
    assert machine.set_up().returncode == 0
    machine.installations()
    return machine


class TestFindingPython:
    def test_the_wish_comes_first(self, machine: Machine) -> None:
        machine.has_python("python", "3.14.0")
        wished = machine.has_python("opt/python", "3.12.9")
        assert machine.find_python(PYTHON=str(wished)) == str(wished)

    def test_a_wish_that_cannot_be_met_is_said_aloud_and_passed_over(self, machine: Machine) -> None:
        usable = machine.has_python("python", "3.13.0")
        wished = machine.has_python("opt/python", "2.7.18")
        result = machine.run("find-python.sh", PYTHON=str(wished))
        assert result.stdout.strip() == str(usable)
        assert "is Python 2.7.18, too old" in result.stderr

    def test_the_checkouts_own_python_comes_before_any_other(self, machine: Machine) -> None:
        own = machine.has_python("python", "3.12.1")
        machine.has_python(".pyenv/versions/3.13.0/bin/python", "3.13.0")
        machine.has_python("python3.14", "3.14.0")
        assert machine.find_python() == str(own)

    def test_pyenvs_newest_is_found_though_no_version_is_chosen(self, machine: Machine) -> None:
        machine.has_python("python3", "3.11.7")
        for version in ("3.9.18", "3.12.9", "3.12.10", "3.13.0t"):
            machine.has_python(f".pyenv/versions/{version}/bin/python", version.removesuffix("t"))
        assert machine.find_python() == str(machine.bin.parent / ".pyenv/versions/3.12.10/bin/python")

    def test_pyenvs_root_may_lie_elsewhere(self, machine: Machine) -> None:
        found = machine.has_python("py env/versions/3.13.0/bin/python", "3.13.0")
        assert machine.find_python(PYENV_ROOT=str(machine.bin.parent / "py env")) == str(found)

    @pytest.mark.parametrize("name", ["python3.14", "python3.13", "python3.12", "python3"])
    def test_an_old_default_does_not_hide_a_newer_one(self, machine: Machine, name: str) -> None:
        machine.has_python("python", "3.11.7")
        found = machine.has_python(name, "3.12.0" if name == "python3" else f"{name.removeprefix('python')}.0")
        assert machine.find_python() == str(found)

    def test_one_that_cannot_make_environments_is_passed_over(self, machine: Machine) -> None:
        machine.has_python("python3.14", "3.14.0", makes_venvs="no")
        found = machine.has_python("python3.12", "3.12.0")
        assert machine.find_python() == str(found)

    def test_where_there_is_none_it_says_why_and_what_to_do(self, machine: Machine) -> None:
        machine.has_python("python3", "3.11.7")
        machine.has_python("python3.13", "3.13.0", makes_venvs="no")
        machine.has_python("python", "3.15.0")
        result = machine.run("find-python.sh")
        assert (result.returncode, result.stdout) == (2, "")
        assert "No usable Python 3.12 to 3.14 was found" in result.stderr
        assert "python3: is Python 3.11.7, too old" in result.stderr
        assert (
            "python3.13: is Python 3.13.0 without venv (on Debian and Ubuntu: apt install python3.13-venv)"
            in result.stderr
        )
        assert "python: is Python 3.15.0, not tried yet" in result.stderr
        assert "make setup PYTHON=" in result.stderr

    def test_set_up_ends_with_that_message_and_touches_nothing(self, machine: Machine) -> None:
        result = machine.set_up()
        assert (result.returncode, result.stdout) == (2, "")
        assert result.stderr.startswith("No usable Python 3.12 to 3.14 was found.\n")
        assert not (machine.checkout / ".venv").exists()

    def test_uv_fetches_one_where_there_is_none(self, machine: Machine) -> None:
        fetched = machine.has_python("fetched/python", "3.13.5")
        uv = machine.bin / "uv"
        uv.write_text(f'#!/bin/sh\ncase "$*" in *find*) echo "{fetched}" ;; esac\n')
        uv.chmod(0o755)
        assert machine.find_python() == str(fetched)

    def test_it_accepts_what_the_package_accepts(self, machine: Machine) -> None:
        project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
        script = (CHECKOUT / "scripts/find-python.sh").read_text()
        assert project["requires-python"] == ">=3.12,<3.15"
        assert "\noldest=12\nnewest=14\n" in script


class TestSettingUp:
    def test_it_installs_the_lock_with_its_hashes_and_then_the_project(self, machine: Machine) -> None:
        machine.has_python("python3.13", "3.13.2")
        result = machine.set_up()
        assert result.returncode == 0, result.stderr
        assert "==> Installing 1 packages with uv" in result.stdout
        packages, project = machine.installations()
        assert packages == "-m uv pip sync -q --python .venv/bin/python --require-hashes requirements.lock"
        assert project.endswith("--no-deps --no-build-isolation --editable .")

    def test_pip_does_it_where_uv_cannot(self, machine: Machine) -> None:
        machine.has_python("python3.13", "3.13.2")
        result = machine.set_up(BROKEN="-m uv")
        assert result.returncode == 0, result.stderr
        assert machine.installations()[1].endswith("install -qq --no-deps --require-hashes -r requirements.lock")

    def test_the_second_run_does_and_says_nothing(self, ready: Machine) -> None:
        result = ready.set_up()
        assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
        assert ready.installations() == []

    @pytest.mark.parametrize("changed", ["requirements.lock", "pyproject.toml", "scripts/setup.sh"])
    def test_a_change_of_what_goes_in_updates_the_environment(self, ready: Machine, changed: str) -> None:
        (ready.checkout / ".venv/kept").touch()
        with (ready.checkout / changed).open("a") as file:
            file.write("# changed\n")
        assert ready.set_up().returncode == 0
        assert len(ready.installations()) == 2
        assert (ready.checkout / ".venv/kept").exists()

    def test_an_interrupted_set_up_begins_anew(self, machine: Machine) -> None:
        machine.has_python("python3.13", "3.13.2")
        assert machine.set_up(BROKEN="-m").returncode == 1
        (machine.checkout / ".venv/half-copied").touch()
        assert machine.set_up().returncode == 0
        assert not (machine.checkout / ".venv/half-copied").exists()

    def test_a_broken_environment_is_made_anew(self, ready: Machine) -> None:
        (ready.checkout / ".venv/bin/python").unlink()
        assert ready.set_up().returncode == 0
        assert len(ready.installations()) == 2

    def test_a_moved_checkout_gets_a_new_environment(self, ready: Machine) -> None:
        (ready.checkout / ".venv/stale").touch()
        ready.checkout = ready.checkout.rename(ready.checkout.with_name("moved"))
        assert ready.set_up().returncode == 0
        assert not (ready.checkout / ".venv/stale").exists()

    def test_another_wish_makes_it_anew_and_no_wish_leaves_it(self, ready: Machine) -> None:
        wished = str(ready.has_python("opt/python", "3.12.9"))
        assert f"==> Python 3.12.9 at {wished}" in ready.set_up(PYTHON=wished).stdout
        assert ready.set_up(PYTHON=wished).stdout == ""
        assert ready.set_up().stdout == ""

    def test_of_two_at_once_one_works_and_the_other_waits(self, machine: Machine, tmp_path: Path) -> None:
        machine.has_python("python3.13", "3.13.2")
        barrier = tmp_path / "barrier"
        barrier.touch()
        with machine.start("setup.sh", HELD_BY=str(barrier)) as first:
            assert first.stdout
            assert first.stdout.readline().startswith("==> Python 3.13.2 at ")
            with machine.start("setup.sh") as second:
                assert second.stdout
                assert second.stdout.readline() == "==> Another set-up is at work; waiting for it\n"
                barrier.unlink()
                assert second.stdout.read() == ""
        assert (first.returncode, second.returncode) == (0, 0)
        assert len(machine.installations()) == 2


# Stands in for npm: it notes what it is asked for, and builds one file.
NPM_STAND_IN = """#!/bin/sh
echo "npm $*" >>"{log}"
case "$*" in
    ci*) [ ! -e "$OFFLINE" ] && mkdir -p node_modules ;;
    *build*) mkdir -p ../{dist} && echo built >../{dist}/index.html ;;
esac
"""
DIST = "src/soliplex/ingester/server/ui/dist"


class TestBuildingTheWebUI:
    @pytest.fixture
    def sources(self, ready: Machine) -> Path:
        folder = ready.checkout / "ui"
        folder.mkdir()
        (folder / "package-lock.json").write_text("{}")
        (folder / "main.ts").write_text("1")
        return folder

    def has_node(self, machine: Machine, *, is_new: bool = True) -> None:
        for name, script in (
            ("node", f"#!/bin/sh\nexit {0 if is_new else 1}\n"),
            ("npm", NPM_STAND_IN.format(log=machine.log, dist=DIST)),
        ):
            (machine.bin / name).write_text(script)
            (machine.bin / name).chmod(0o755)

    def test_it_is_built_once_for_each_state_of_its_sources(self, ready: Machine, sources: Path) -> None:
        self.has_node(ready)
        assert ready.run("ui.sh").returncode == 0
        assert [line.split()[1] for line in ready.installations()] == ["ci", "run"]
        assert ready.run("ui.sh").stdout == ""
        (sources / "main.ts").write_text("2")
        ready.run("ui.sh")
        assert [line.split()[1] for line in ready.installations()] == ["run"]

    def test_without_a_node_that_is_new_enough_one_is_fetched_by_its_hash(self, ready: Machine, sources: Path) -> None:
        self.has_node(ready, is_new=False)
        ready.run("ui.sh")
        (fetched,) = ready.installations()
        assert "--require-hashes" in fetched
        assert "node-requirements.txt" in fetched

    def test_where_node_cannot_be_had_set_up_goes_on_and_says_what_is_missing(
        self, ready: Machine, sources: Path
    ) -> None:
        result = ready.run("ui.sh", BROKEN="node-requirements")
        assert result.returncode == 0
        assert "there is no node 20.19 or newer" in result.stderr
        assert "The server works without its pages" in result.stderr

    def test_where_packages_cannot_be_had_set_up_goes_on_and_the_next_tries_again(
        self, ready: Machine, sources: Path, tmp_path: Path
    ) -> None:
        self.has_node(ready)
        offline = tmp_path / "offline"
        offline.touch()
        result = ready.run("ui.sh", OFFLINE=str(offline))
        assert (result.returncode, "npm could not fetch its packages" in result.stderr) == (0, True)
        offline.unlink()
        assert ready.run("ui.sh").returncode == 0
        assert (ready.checkout / DIST / "index.html").exists()


class TestLocks:
    @pytest.mark.parametrize(
        "lock", ["requirements.lock", "scripts/uv-requirements.txt", "scripts/node-requirements.txt"]
    )
    def test_each_is_within_the_rules(self, lock: str) -> None:
        assert check_lock(CHECKOUT / lock).stderr == ""

    def test_that_of_the_web_ui_says_of_no_package_where_it_was_fetched(self) -> None:
        lock = (CHECKOUT / "ui/package-lock.json").read_text()
        assert "resolved" not in lock
        packages = json.loads(lock)["packages"]
        assert all("integrity" in package for name, package in packages.items() if name)

    @pytest.mark.parametrize(
        ("line", "objection"),
        [
            ("--index-url https://mirror.example/simple", "names an address or a path"),
            ("x @ https://mirror.example/x.whl \\", "names an address or a path"),
            ("# uv pip compile -o /home/me/requirements.lock", "names an address or a path"),
            ("torch==2.9.0 \\", "lets torch in"),
            ("nvidia-cublas-cu12==12.8 ; sys_platform == 'linux' \\", "lets torch in"),
            ("sentence-transformers==5.1.0 \\", "lets torch in"),
            ("anyio==4.0", "pins without a hash"),
        ],
    )
    def test_one_that_breaks_a_rule_is_refused(self, tmp_path: Path, line: str, objection: str) -> None:
        lock = tmp_path / "requirements.lock"
        lock.write_text(f"{line}\n    --hash=sha256:0\n")
        result = check_lock(lock)
        assert result.returncode == 1
        assert objection in result.stderr
        assert line in result.stderr


def check_lock(lock: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", CHECKOUT / "scripts/check-lock.sh", lock],
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
