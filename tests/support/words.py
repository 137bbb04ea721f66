"""The games' random words with Python's whole numbers: the naive twin of privcore's hashing."""

WORD = 2**64
_GOLDEN = 0x9E3779B97F4A7C15


def splitmix(word):
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB % WORD
    return word ^ (word >> 31)


def naive_stream(key, index):
    return splitmix((key + (index + 1) * _GOLDEN) % WORD)


def naive_word(key, index, repetition):
    return splitmix((naive_stream(key, index) + (repetition + 1) * _GOLDEN) % WORD)


def naive_draw(key, index, repetition):
    """Return the label-inference game's bit, coin and uniform number in multiples of 2^-53."""
    draw = naive_word(key, index, repetition // 4) >> 16 * (repetition % 4) & 0xFFFF
    rest = naive_word(key, index, 2**32 - 1 + repetition)
    return draw & 1, rest & 1, draw >> 1 << 38 | rest >> 26
