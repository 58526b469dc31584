# task: Draw a text histogram of the word lengths in the sentence.
# expects: "2 | ##\n3 | ####\n4 | #\n5 | ###\n6 | #"
from collections import Counter

sentence = "The quick brown fox is on the lazy dog today little"
lengths = Counter(len(word) for word in sentence.split())
"\n".join(f"{length} | {'#' * lengths[length]}" for length in sorted(lengths))
