# task: Wrap this description to 40 characters per line and give me the longest line's length.
# expects: {"lines": ["The quarterly review covers revenue,", "hiring, open incidents and the plan for", "the next quarter. Please read the", "material beforehand."], "longest": 39}
text = (
    "The quarterly review covers revenue, hiring, open incidents and the plan "
    "for the next quarter. Please read the material beforehand."
)


def wrap(text: str, width: int = 40) -> list[str]:
    lines: list[str] = []
    current = ""
    for word in text.split():
        candidate = f"{current} {word}".strip()
        if len(candidate) > width and current:
            lines.append(current)
            current = word
        else:
            current = candidate
    if current:
        lines.append(current)
    return lines


wrapped = wrap(text)
{"lines": wrapped, "longest": max(map(len, wrapped))}
