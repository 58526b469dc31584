# task: Turn these titles into URL slugs without accents.
# expects: {"Café Zürich – Treffen": "cafe-zurich-treffen", "  Año Nuevo!! ": "ano-nuevo", "Ångström & Co.": "angstrom-co"}
import re
import unicodedata


def slugify(title: str) -> str:
    normalized = unicodedata.normalize("NFKD", title)
    ascii_only = "".join(c for c in normalized if not unicodedata.combining(c))
    return re.sub(r"[^a-z0-9]+", "-", ascii_only.lower()).strip("-")


titles = ["Café Zürich – Treffen", "  Año Nuevo!! ", "Ångström & Co."]
{t: slugify(t) for t in titles}
