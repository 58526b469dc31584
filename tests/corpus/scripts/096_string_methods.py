# task: Mask the card numbers, check the palindromes and count the vowels.
# expects: {"masked": ["**** **** **** 1234", "**** **** **** 0005"], "palindromes": ["Level", "A man a plan a canal Panama"], "vowels": 12, "padded": "00042", "centred": "--hi--"}
cards = ["4000123412341234", "5500 0000 0000 0005"]
phrases = ["Level", "Hello", "A man a plan a canal Panama"]


def mask(card: str) -> str:
    digits = card.replace(" ", "")
    masked = "*" * (len(digits) - 4) + digits[-4:]
    return " ".join(masked[i : i + 4] for i in range(0, len(masked), 4))


def is_palindrome(text: str) -> bool:
    letters = [c.lower() for c in text if c.isalnum()]
    return letters == letters[::-1]


sentence = "An event a day is quite enough"
{
    "masked": [mask(c) for c in cards],
    "palindromes": [p for p in phrases if is_palindrome(p)],
    "vowels": sum(ch in "aeiou" for ch in sentence.lower()),
    "padded": "42".zfill(5),
    "centred": "hi".center(6, "-"),
}
