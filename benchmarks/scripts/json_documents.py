"""What `autotune ... --json` printed, as one document a command, from a file that may hold several runs and lines of other text."""
import json


def documents(path):
    """Every JSON object of the file: the elements of an array, the items of a sweep, or the object itself."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    decoder = json.JSONDecoder()
    at = 0
    while at < len(text):
        if text[at] in "{[" and (at == 0 or text[at - 1] == "\n"):
            document, at = decoder.raw_decode(text, at)
            yield from elements(document)
        at = text.find("\n", at) + 1 or len(text)


def elements(document):
    if isinstance(document, list):
        yield from document
    elif "items" in document:
        yield from document["items"]
    else:
        yield document
