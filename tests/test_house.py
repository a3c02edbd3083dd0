"""Rules of the house that a test can hold: sizes of functions, modules and folders."""

import ast
import re
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "skdpbo"
TEXTS = {str(path): path.read_text("utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
# The rule for functions is 30 lines: this is the most that has been let pass.
MOST_LINES_OF_FUNCTION, MOST_LINES_OF_MODULE, MOST_MODULES = 40, 350, 15


def long_functions(text, most=MOST_LINES_OF_FUNCTION):
    """Return (name, lines without docstring) of the functions that are too long."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    found = []
    for node in ast.walk(ast.parse(text)):
        # scikit-learn wants every parameter twice in __init__, and nothing else.
        if not isinstance(node, kinds) or node.name == "__init__":
            continue
        doc = node.body[0] if ast.get_docstring(node) is not None else None
        lines = node.end_lineno - node.lineno + 1
        lines -= 0 if doc is None else doc.end_lineno - doc.lineno + 1
        found += [(node.name, lines)] * (lines > most)
    return found


def among_modules(found):
    """Return what is found in the texts of the modules, by their paths."""
    return {path: offences for path, text in TEXTS.items() if (offences := found(text))}


def test_functions_and_modules_are_short():
    assert among_modules(long_functions) == {}, "divide them: these have more lines than allowed"
    lines = {path: len(text.splitlines()) for path, text in TEXTS.items()}
    long = {path: n for path, n in lines.items() if n > MOST_LINES_OF_MODULE}
    assert long == {}, f"move one idea of each to a module of its own: {MOST_LINES_OF_MODULE} lines"


def questions(text):
    """Return the summary lines that begin with a question word: they name nothing."""
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef
    docs = [ast.get_docstring(n) or "" for n in ast.walk(ast.parse(text)) if isinstance(n, kinds)]
    begin = re.compile(r"(What|Which|How|Who|Where|Why)\b")
    return [line for line in (doc.partition("\n")[0] for doc in docs) if begin.match(line)]


def test_summaries_name_the_thing():
    assert among_modules(questions) == {}, "begin with a noun or an imperative verb"


def test_a_question_is_found():
    text = 'def f():\n    """How many."""\nclass C:\n    """Howard is named."""'
    assert questions(text) == ["How many."]


def test_folders_hold_few_modules():
    folders = {path.parent for path in PACKAGE.rglob("*.py")}
    modules = {folder: [*folder.glob("[!_]*.py"), *folder.glob("_[!_]*.py")] for folder in folders}
    full = {folder.name for folder in folders if len(modules[folder]) > MOST_MODULES}
    assert full == set(), f"{MOST_MODULES} modules a folder: make a folder of those of one subject"


def test_a_long_function_is_found():
    body = "    x = 1\n" * MOST_LINES_OF_FUNCTION
    assert long_functions(f"def f():\n{body}") == [("f", MOST_LINES_OF_FUNCTION + 1)]
    short = body.removesuffix("    x = 1\n")
    assert long_functions(f'def f():\n    """Say.\n\n    More.\n    """\n{short}') == []
