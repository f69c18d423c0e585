"""What the documentation shows works: docstrings, the page of the book, the examples; and the stubs are true."""

import ast
import doctest
import importlib.metadata
import inspect
import pathlib
import re
import subprocess
import sys
import typing

import pinnace
import pytest
from conftest import METHODS, ROOT

EXAMPLES = sorted((ROOT / "examples/python").glob("*.py"))
PAGE = ROOT / "docs/src/python.md"


@pytest.mark.parametrize("module", [pinnace, pinnace._pinnace, pinnace.aio, pinnace.errors, pinnace.types])
def test_docstrings(module):
    """Of the compiled part, the classes say that they are the package's, and the functions that they are its own."""
    finder = doctest.DocTestFinder(exclude_empty=False)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for test in finder.find(module, module.__name__, globs={}):
        runner.run(test)
    assert runner.tries > 0 and runner.failures == 0


def blocks(page):
    """The blocks of code of a page, with the line where each begins."""
    text = page.read_text()
    for match in re.finditer(r"^```(\w+)[^\n]*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield match[1], text[: match.start(2)].count("\n"), match[2]


def test_the_page_of_the_book():
    """Its blocks are one program, in the order of the page."""
    names = {"__name__": "__main__"}
    languages = [language for language, _, _ in blocks(PAGE)]
    assert languages.count("python") >= 6 and set(languages) <= {"python", "sh", "text"}
    for language, line, code in blocks(PAGE):
        if language == "python":
            exec(compile("\n" * line + code, str(PAGE), "exec"), names)


def test_the_first_program_of_the_readme():
    """If the README has one in Python, it runs."""
    programs = [code for language, _, code in blocks(ROOT / "README.md") if language == "python"]
    for program in programs:
        assert len(program.strip().splitlines()) <= 15
        subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_examples(example):
    done = subprocess.run([sys.executable, example], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stderr == "" and done.stdout, done.stderr
    # What a program prints stands at its end.
    expected = re.findall(r"^# prints: (.*)$", example.read_text(), re.MULTILINE)
    for line in expected:
        assert line in done.stdout.splitlines(), done.stdout


def test_there_are_examples():
    assert len(EXAMPLES) >= 6
    first = [line for line in EXAMPLES[0].read_text().splitlines() if line.strip()]
    assert len(first) <= 15


def test_the_stubs_name_what_there_is():
    stub = ast.parse(pathlib.Path(inspect.getfile(pinnace)).with_name("_pinnace.pyi").read_text())
    classes = {node.name: node for node in stub.body if isinstance(node, ast.ClassDef)}
    functions = {node.name for node in stub.body if isinstance(node, ast.FunctionDef)}
    real = {name for name in vars(pinnace._pinnace) if not name.startswith("__")}
    assert real == set(classes) | functions
    listed = next(node.value for node in stub.body if isinstance(node, ast.Assign) and node.targets[0].id == "__all__")
    assert sorted(ast.literal_eval(listed)) == sorted(pinnace._pinnace.__all__)
    for name in classes:
        said = {node.name for node in classes[name].body if isinstance(node, ast.FunctionDef)}
        has = {name for name in vars(getattr(pinnace._pinnace, name)) if not name.startswith("__")}
        assert has == {name for name in said if not name.startswith("__")}, name
    for name in functions:
        said = next(node for node in stub.body if getattr(node, "name", "") == name).args
        has = inspect.signature(getattr(pinnace._pinnace, name)).parameters
        arguments = [argument.arg for argument in said.args + said.kwonlyargs]
        assert [name for name in has if name != "settings"] == arguments


def test_the_types_of_arguments_are_there_when_a_program_runs():
    for name in pinnace.types.__all__:
        assert getattr(pinnace.types, name), name
    for name in "Fault", "Overrides", "Settings", "Words":
        kind = getattr(pinnace.types, name)
        assert kind.__doc__ and typing.get_type_hints(kind) and not kind.__required_keys__, name
    # What the method of a connection is called is a `Method`.
    assert {*METHODS, "shared-memory"} == set(typing.get_args(pinnace.types.Method))


def test_the_version_is_that_of_the_package():
    assert pinnace.__version__ == importlib.metadata.version("pinnace")


def test_stubtest_finds_nothing(tmp_path):
    pytest.importorskip("mypy", reason="mypy is not installed: its stubtest is not run")
    # Its stubtest takes an alias of several literals for a union.
    allowed = tmp_path / "allowed"
    allowed.write_text("pinnace.types.Method\n")
    program = [sys.executable, "-m", "mypy.stubtest", "pinnace", "--allowlist", allowed, "--ignore-unused-allowlist"]
    done = subprocess.run(program, capture_output=True, text=True, timeout=200, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


TYPED = """
import numpy, pinnace
from pinnace import aio

def send(connection: pinnace.Connection, picture: numpy.ndarray[tuple[int, int], numpy.dtype[numpy.float32]]) -> int:
    connection.send(picture).wait(1)
    connection.sendmsg([b"head", bytearray(3), memoryview(b"body"), picture[3:]])
    try:
        received = connection.recv_into(picture, timeout=1)
    except pinnace.TimeoutError:
        return 0
    except (pinnace.ConnectionError, pinnace.OSError) as error:
        raise SystemExit(str(error)) from error
    return received.bytes if received else 0

async def ask(connection: aio.Connection, picture: numpy.ndarray[tuple[int], numpy.dtype[numpy.uint8]]) -> bytes:
    await (await connection.send(picture))
    return bytes(await connection.transact(picture))
"""


@pytest.mark.parametrize("version", ["3.11", "3.12"])
def test_programs_have_types(tmp_path, version):
    """Also those that send arrays of numpy, and that name what `from pinnace import *` leaves out."""
    pytest.importorskip("mypy", reason="mypy is not installed: no program's types are checked")
    (tmp_path / "program.py").write_text(TYPED)
    check = [sys.executable, "-m", "mypy", "--strict", "--python-version", version, "program.py"]
    done = subprocess.run(check, capture_output=True, text=True, timeout=200, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_names_that_are_built_in_too_are_the_packages():
    """A checker of types sees of a module what `__all__` lists, and what is imported under its own name."""
    module = ast.parse(pathlib.Path(pinnace.__file__).read_text())
    imports = [name for node in module.body if isinstance(node, ast.ImportFrom) for name in node.names]
    seen = set(pinnace.__all__) | {name.name for name in imports if name.asname == name.name}
    assert {name for name in vars(pinnace.errors) if name.endswith("Error")} <= seen


def test_everything_has_a_docstring():
    for name in pinnace.__all__:
        thing = getattr(pinnace, name)
        assert thing.__doc__, name
        for member, value in vars(thing).items() if isinstance(thing, type) else ():
            if not member.startswith("_") and not isinstance(thing, type(Exception)):
                assert value.__doc__, f"{name}.{member}"
