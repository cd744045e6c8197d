"""What a word is, and which words are counted.

A word begins with a letter, goes on with letters and digits, may have an apostrophe inside, and has two characters or
more; it is lower-cased, and a possessive 's is dropped. So "America's p53 genes don't" has america, p53, genes, don't.
Addresses on the web and of e-mail are no words, and leave none behind.

A model remembers by which rules its words were counted. Rules 1 took addresses apart into words.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unmix.base.checks import parameter
from unmix.io.read.files import extra, lines_of
from unmix.io.read.raw_counts import ReadOptions, StopWords

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import CountVectorizer

    from unmix.fit import Fit


RULES = 2
WORD = re.compile(r"(?<![^\W_])[^\W\d_][^\W_]*(?:'(?!s(?![^\W_]))[^\W_]+)*")
# Each alternative may begin where a run of its characters does, so that long runs are gone through once.
ADDRESS = re.compile(
    r"""(?:\b(?:https?|ftp)://|\bwww\.)[^\s<>"]*"""  # http://example.org/page
    r"|(?<![\w.+-])[\w.+-]++@[\w-]+(?:\.[\w-]+)+"  # name@example.org
    r"|(?<![\w.-])(?:[\w-]+\.)+"  # bit.ly/page: without http only if a known ending and a path follow
    r"""(?:com|org|net|edu|gov|info|io|co|ly|gl|gd|me|be|tv|cc|eu|uk|de|fr|us|ca|au|ru)/[^\s<>"]*"""
)
LEFT_OF_ADDRESSES = frozenset(["http", "https", "www"])  # where blanks have torn them apart
# Stop words with an apostrophe, which the list of scikit-learn has not.
NEGATIONS = "are ca could did does do had has have is must need sha should was were wo would ai"
PRONOUNS, VERBS = "i you he she it we they that there who what this", "ll ve re d m"
SHORT_FORMS = frozenset(
    [f"{verb}n't" for verb in NEGATIONS.split()]
    + [f"{who}'{verb}" for who in PRONOUNS.split() for verb in VERBS.split()]
)


def plain(text: str) -> str:
    """Lower case, accents as one character with their letter, typographic apostrophes as plain ones."""
    return unicodedata.normalize("NFC", text).lower().replace("’", "'")


def without_addresses(text: str) -> str:
    """The same in plain letters, with a blank in place of every address.

    >>> words(without_addresses("Read https://t.co/Ab1 or ow.ly/x, mail to jo@bees.org; and/or U.S./U.K. bees"))
    ['read', 'or', 'mail', 'to', 'and', 'or', 'bees']
    """
    text = plain(text)
    if not _may_be_address(text):
        return text
    # word by word, as the pattern takes its time and few words have such a sign
    return " ".join([ADDRESS.sub(" ", word) if _may_be_address(word) else word for word in text.split()])


def _may_be_address(text: str) -> bool:
    return "/" in text or "@" in text or "www." in text


def words(text: str) -> list[str]:
    """The words of a text in lower case.

    >>> words(plain("America’s 2nd p53 genes don't, in 1999 as now; a x"))
    ['america', 'p53', 'genes', "don't", 'in', 'as', 'now']
    """
    return [word for word in WORD.findall(text) if len(word) > 1]


def words_but_addresses(text: str) -> list[str]:
    """The words of a text without what may be left of addresses."""
    found = words(text)
    return [word for word in found if word not in LEFT_OF_ADDRESSES] if "http" in text or "www" in text else found


PREPARE = {1: plain, 2: without_addresses}  # by the rules of a model
SPLIT = {1: words, 2: words_but_addresses}


def vectorizer_of(settings: dict[str, Any], vocabulary: list[str] | None) -> CountVectorizer:
    """What counts words as the settings say, all of them or those of a vocabulary."""
    from sklearn.feature_extraction.text import CountVectorizer

    return CountVectorizer(
        preprocessor=PREPARE[settings["rules"]],
        tokenizer=SPLIT[settings["rules"]],
        token_pattern=None,
        stop_words=_stop_words(settings["stop_words"]),
        ngram_range=tuple(settings["ngrams"]),
        min_df=settings["min_df"],
        max_df=settings["max_df"],
        vocabulary=vocabulary,
        dtype=np.float64,
    )


def without_words(n: int, settings: dict[str, Any], *, any_word: bool) -> ValueError:
    if not any_word:
        return ValueError(f"no words in {n:,} texts, stop words and single letters aside")
    between = f"at least {settings['min_df']} and at most {settings['max_df']}"
    return ValueError(
        f"no word is in {between} of {n:,} texts; lower {parameter('min_df')} or raise {parameter('max_df')}"
    )


def settings_of(options: ReadOptions, n: int, text_column: str | None, title_column: str | None) -> dict[str, Any]:
    """All that is needed to count the words of other texts alike, and where texts and titles stood; numbers, words and lists
    only."""
    min_df = _document_frequency("min_df", options.min_df, default=1 if n < 10 else 2 if n < 100 else 5)
    max_df = _document_frequency("max_df", options.max_df, default=1.0)
    return {
        "rules": RULES,
        "stop_words": _listed_stop_words(options.stop_words),
        "ngrams": _ngrams(options.ngrams),
        "min_df": min_df,
        "max_df": max_df,
        "text_column": text_column,
        "title_column": title_column,
    }


def as_before(like: Fit) -> tuple[dict[str, Any], list[str]]:
    """The settings and the words of a model that was made from texts."""
    if like.text is None or like.features is None:
        raise ValueError("the model was not made from text; give counts with the names of its features")
    if like.text.get("rules") not in PREPARE:
        raise ValueError("the model counts words in a way this version of unmix does not know; upgrade unmix")
    return dict(like.text), [str(word) for word in like.features]


def _document_frequency(name: str, value: int | float | None, default: int | float) -> int | float:
    if value is None:
        return default
    number = isinstance(value, int) and not isinstance(value, bool) and value >= 1
    if number or (isinstance(value, float) and 0 <= value <= 1):
        return value
    raise ValueError(f"{parameter(name, value)}; give a number of documents (1, 2, …) or a share of them (0.0 to 1.0)")


def _ngrams(ngrams: int | tuple[int, int]) -> list[int]:
    first, last = (1, ngrams) if isinstance(ngrams, int) else ngrams
    if not (isinstance(first, int) and isinstance(last, int) and 1 <= first <= last):
        raise ValueError(
            f"{parameter('ngrams', ngrams)}; give 1 for words, 2 for pairs as well, or (2, 2) for pairs alone"
        )
    return [first, last]


def _listed_stop_words(wanted: StopWords) -> str | list[str] | None:
    """'english', None, or a list of words: of a language, from a list or a file."""
    if wanted is None or wanted == "english":
        return wanted
    if isinstance(wanted, str | os.PathLike):
        wanted = _words_of_file(Path(wanted)) if Path(wanted).is_file() else _words_of_language(str(wanted))
    entries = [words(plain(str(entry))) for entry in wanted]
    return sorted({entry[0] for entry in entries if len(entry) == 1})


def _words_of_file(file: Path) -> list[str]:
    try:
        return lines_of(file)
    except ValueError as error:
        raise ValueError(f"stop words in {file}: {error}") from error


def _words_of_language(name: str) -> list[str]:
    if not name.isalpha():
        known = ", ".join(known_languages())
        raise ValueError(
            f"{parameter('stop_words', name)}: no such file; give one with a word a line, None, or a language: {known}"
        )
    return stop_words_of(name.lower())


def _stop_words(wanted: Any) -> list[str] | None:
    if wanted == "english":
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

        return sorted(ENGLISH_STOP_WORDS | SHORT_FORMS)
    return wanted or None


# Stop words of many languages, from the package stop-words, and a guess at the language from the most widespread words.

# Words that are in nearly every text of a language. Those that English leaves out anyway (de, un, in, …) would tell nothing.
WIDESPREAD = {
    "english": "the of and to is that it for was with as be this are have not",
    "german": "der die und das nicht ist den mit von zu sich auf für ein eine dem des im werden wir",
    "french": "le la les des est une du que qui dans pour pas sur au par nous vous ce",
    "spanish": "el la los las que del se por una para es como su más lo al no sus",
    "italian": "il di che la della per non del le una sono si da gli nel alla dei ha",
    "portuguese": "que do da em não um para uma os com na se por mais dos as ao foi",
    "dutch": "het van een dat op te zijn voor met niet aan er ook die wij en worden",
    "swedish": "och att det som på är av för inte till den har om ett vi med",
    "danish": "og det er på af til ikke der den som med har en at vi et",
    "norwegian": "og det er på som ikke til av har med den en å vi et jeg",
    "finnish": "on ja ei että se oli ole hän mutta kun joka myös ovat niin",
    "polish": "nie się na jest że do to jak dla od po przez czy oraz",
    "czech": "je se na že to by tak ale jako do pro za ve jsem",
    "hungarian": "hogy nem egy az és van is volt csak meg ez ha már",
    "romanian": "și în nu să este pe care din cu la pentru ca mai sunt",
    "turkish": "bir bu ve için da de çok ne gibi daha olan ile olarak",
    "indonesian": "yang dan di ini itu dengan untuk tidak dari dalam pada akan",
    "russian": "не что на это как он но по все за из так мы для",
    "ukrainian": "не на що та це як він до за але які від про для",
}
MOST, ENOUGH = 25, 5  # so many of the most widespread words of a corpus must be a language's


def stop_words_of(language: str) -> list[str]:
    """The stop words of a language by its English name; a ValueError if there are none."""
    package = extra("stop_words", f"leaving out the stop words of {language!r}", "text")
    if language not in package.AVAILABLE_LANGUAGES:
        raise ValueError(f"no stop words of {language!r}; there are those of {', '.join(known_languages())}")
    return list(package.get_stop_words(language))


def known_languages() -> list[str]:
    """English, and the others if their words are installed."""
    try:
        from stop_words import AVAILABLE_LANGUAGES
    except ImportError:
        return ["english"]
    return sorted(AVAILABLE_LANGUAGES)


def guessed_language(widespread: Sequence[str]) -> tuple[str, list[str]] | None:
    """The language whose words many of these are, the most widespread words first, and which; None if it is not plain.

    >>> guessed_language("der haus die und das nicht ist baum".split())
    ('german', ['der', 'die', 'und', 'das', 'nicht', 'ist'])
    """
    found = {
        language: [word for word in widespread[:MOST] if word in known]
        for language, known in ((name, set(words.split())) for name, words in WIDESPREAD.items())
    }
    language = max(found, key=lambda name: len(found[name]))
    return (language, found[language]) if len(found[language]) >= ENOUGH else None


def about_language(widespread: Iterable[str], stop_words: object) -> list[str]:
    """What to say if words that should have been left out are those of another language than was asked for."""
    guess = guessed_language(list(widespread)) if isinstance(stop_words, str) and stop_words in WIDESPREAD else None
    if guess is None or guess[0] == stop_words:
        return []
    language, words = guess
    return [
        f"the most widespread words are {', '.join(words[:5])}: {language.capitalize()}? "
        f"{parameter('stop_words', language)} leaves such words out"
    ]
