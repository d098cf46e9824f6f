#!/usr/bin/env python3
"""Draw what a terminal showed as an SVG: `tmux capture-pane -p -e -S - | tools/terminal-svg.py TITLE > docs/demo.svg`.

Words of one style are placed by their column, and again after two spaces, so that any fixed-width font gives straight
tables. Knows the colours and weights that SGR 0-49 and 90-107 ask for; everything else is dropped.
"""
import html
import re
import sys

WIDTH, HEIGHT, SIZE, MARGIN, BAR = 8.0, 17, 13, 16, 34
BACK, TEXT = "#11151c", "#d5dae2"
COLOURS = ["#4b5263", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#d5dae2"]
WORDS = re.compile(r"\S+( \S+)*")
SGR = re.compile(r"\x1b\[([0-9;]*)m|\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]")


def runs(line, style):
    """(column, text, style) of a line, and the style that it leaves behind."""
    found, column, at = [], 0, 0
    for match in [*SGR.finditer(line), None]:
        text = line[at : match.start() if match else len(line)]
        if text.strip():
            found.append((column, text, dict(style)))
        column += len(text)
        if match is None:
            return found, style
        at = match.end()
        if match.group(1) is None:
            continue
        for code in map(int, (match.group(1) or "0").split(";")):
            if code == 0:
                style = {}
            elif code in (1, 2):
                style = style | {"weight": code}
            elif code == 22:
                style = {k: v for k, v in style.items() if k != "weight"}
            elif 30 <= code <= 37 or 90 <= code <= 97:
                style = style | {"colour": COLOURS[code % 10]}
            elif code == 39:
                style = {k: v for k, v in style.items() if k != "colour"}


def attributes(style):
    words = f' fill="{style["colour"]}"' if "colour" in style else ""
    return words + {1: ' font-weight="bold"', 2: ' opacity="0.6"'}.get(style.get("weight"), "")


def main():
    lines = sys.stdin.read().rstrip("\n").split("\n")
    title = sys.argv[1] if len(sys.argv) > 1 else ""
    columns = max(len(SGR.sub("", line)) for line in lines)
    width, height = 2 * MARGIN + WIDTH * columns, BAR + 2 * MARGIN + HEIGHT * len(lines)
    print(f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" viewBox="0 0 {width:.0f} {height}"'
          f' font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, \'DejaVu Sans Mono\', monospace" font-size="{SIZE}">')
    print(f'<rect width="100%" height="100%" rx="8" fill="{BACK}"/>')
    for i, colour in enumerate(["#e06c75", "#e5c07b", "#98c379"]):
        print(f'<circle cx="{MARGIN + 5 + 18 * i}" cy="{BAR / 2}" r="5" fill="{colour}"/>')
    print(f'<text x="50%" y="{BAR / 2 + 4}" text-anchor="middle" fill="{COLOURS[0]}">{html.escape(title)}</text>')
    print(f'<g fill="{TEXT}">')
    style = {}
    for row, line in enumerate(lines):
        found, style = runs(line, style)
        for column, text, look in found:
            for words in WORDS.finditer(text):
                x, y = MARGIN + WIDTH * (column + words.start()), BAR + MARGIN + HEIGHT * row + SIZE - 2
                length = WIDTH * len(words.group())
                print(f'<text x="{x:.0f}" y="{y}" textLength="{length:.0f}"{attributes(look)}>{html.escape(words.group())}</text>')
    print("</g>\n</svg>")


main()
