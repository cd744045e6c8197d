"""What a word is, and which words are counted.

Words follow Unicode's word segmentation (UAX #29): letters with their marks, digits, underscores, and an apostrophe or another
sign of that kind inside. So "America's p53 genes don't" has america, p53, genes, don't. Where unmix departs from the standard:

- A word begins with a letter; numbers and emoji are not counted. A single letter is a word only in scripts that write words so.
- It may begin with the sign of a tag or a name (#metoo, @nasa), and end with ++, # or a hyphen and a number (c++, c#,
covid-19).
- A possessive 's is dropped, and so is an article or pronoun before an apostrophe (l'homme, dell'arte).
- Runs of Chinese, Japanese, Thai, Khmer, Lao or Burmese letters stay whole, as a segmenter separates words by blanks.
- Addresses on the web and of e-mail are not words, and neither are their parts.

Words are compared by Unicode's full case folding, and named by the first form found, in lower case and composed (NFC).
A model remembers by which rules its words were counted.
"""

from __future__ import annotations

import os
import unicodedata
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import regex

from unmix.base.checks import parameter
from unmix.io.options import Phrases, ReadOptions, StopWords, Tokenizer
from unmix.io.read.files import extra, lines_of

if TYPE_CHECKING:
    from unmix.fit import Fit

RULES = 3
TOKENS = "lists of tokens"  # instead of the name of a tokenizer
# Properties of Unicode: letters, and what continues a word that began with one.
LETTER, MORE = r"[\p{L}\p{M}\p{Nl}]", r"[\p{L}\p{M}\p{N}\p{WB=Extend}\p{WB=Format}\p{WB=ZWJ}_]"
# Of French, Italian and Catalan: what is written together with the next word.
ELIDED = "[cdjlmnst]|qu|jusqu|lorsqu|puisqu|quoiqu|presqu|[dnsc]ell|[ds]?all|sull|un|quest|quell|bell|sant"
WORD = regex.compile(
    rf"(?<![\p{{L}}\p{{M}}\p{{N}}])(?:(?i:{ELIDED})['’](?={LETTER}))?"
    rf"({LETTER}(?:\.{LETTER})++(?!{MORE})|(?:(?<!&)[#@])?{LETTER}{MORE}*+"
    rf"""(?:(?:['’‘´`·‧]|(?<=\p{{Hebrew}})["״](?=\p{{Hebrew}})){MORE}++)*+"""
    rf"(?:[-‑]\p{{Nd}}{MORE}*+)?(?:\+\+|(?<=(?<!{MORE}){LETTER})\#(?!{MORE}))?)"
)
APOSTROPHES = str.maketrans("’‘ʼ´`", "'''''")  # which stand for one inside of words
IGNORED = regex.compile(
    r"\p{WB=Format}|_+$|'s$|^'"
)  # in a word: soft hyphens, marks of direction; at its end, a possessive
ALONE = regex.compile(
    r"[\p{Han}\p{Hangul}\p{Hiragana}\p{Katakana}\p{Bopomofo}\p{Yi}\p{Ethiopic}\p{Tibetan}]"
)  # may be a word
# Each alternative may begin where a run of its characters does, so that long runs are gone through once.
ADDRESS = regex.compile(
    r"""(?i)(?:\b(?:https?|ftp)://|\bwww\.)[^\s<>"]*"""  # http://example.org/page
    r"|(?<![\w.+-])[\w.+-]++@[\w-]+(?:\.[\w-]+)+"  # name@example.org
    r"|(?<![\w.-])(?:[\w-]+\.)+"  # bit.ly/page: without http only if a known ending and a path follow
    r"""(?:com|org|net|edu|gov|info|io|co|ly|gl|gd|me|be|tv|cc|eu|uk|de|fr|us|ca|au|ru)/[^\s<>"]*"""
)
LEFT_OF_ADDRESSES = frozenset(["http", "https", "www"])  # where blanks have torn them apart
REMEMBERED, LONGEST = 1 << 19, 64  # chunks of text between blanks whose words are kept, and letters of one
# Stop words that the list of scikit-learn has not.
NEGATIONS = "are ca could did does do had has have is must need sha should was were wo would ai"
PRONOUNS, VERBS = "i you he she it we they that there who what this", "ll ve re d m"
SHORT_FORMS = frozenset(
    ["e.g", "i.e"]
    + [f"{verb}n't" for verb in NEGATIONS.split()]
    + [f"{who}'{verb}" for who in PRONOUNS.split() for verb in VERBS.split()]
)


def words(text: str) -> list[str]:
    """The words of a text in lower case.

    >>> words("America’s 2nd p53 genes don't, in 1999 as now; a x")
    ['america', 'p53', 'genes', "don't", 'in', 'as', 'now']
    >>> words("Read https://t.co/Ab1 or ow.ly/x, mail to jo@bees.org; and/or U.S./U.K. bees")
    ['read', 'or', 'mail', 'to', 'and', 'or', 'u.s', 'u.k', 'bees']
    """
    text = unicodedata.normalize("NFC", text)
    if "/" in text or "@" in text or "www." in text:
        text = ADDRESS.sub(" ", text)
    found = (IGNORED.sub("", word.translate(APOSTROPHES)).lower().replace("i̇", "i") for word in WORD.findall(text))
    return [word for word in found if word not in LEFT_OF_ADDRESSES and (len(word) > 1 or ALONE.match(word))]


class Words(dict[str, Any]):
    """Counts words, all of them or those of a vocabulary: texts or lists of tokens -> numbers of words, as the bytes of
    integers.

    It remembers which words are in what is between blanks, as most of that comes again and again: a text costs a look-up per
    word. They are the bytes of their numbers, or for ngrams the words. `names` are the words by their numbers; one that is not
    in the vocabulary has the next number after these.
    """

    def __init__(self, settings: dict[str, Any], vocabulary: list[str] | None = None) -> None:
        self.tokenize: Tokenizer | None = None
        self.key: Callable[[str], str] = str if settings.get("tokenizer") else str.casefold
        phrases = sorted(settings.get("phrases") or (), key=len, reverse=True)
        self.phrases = regex.compile(rf"(?i)\b(?:{'|'.join(map(_phrase, phrases))})\b") if phrases else None
        self.stop = frozenset(map(self.key, _stop_words(settings["stop_words"]) or ()))
        self.first, self.last = settings["ngrams"]
        self.names, self.closed = list(vocabulary or ()), vocabulary is not None
        self.numbers = {self.key(name): number for number, name in enumerate(self.names)}

    def tokenized_by(self, tokenizer: Tokenizer | Any) -> Self:
        """The same words, found by a function."""
        words = copy(self)
        words.tokenize = getattr(tokenizer, "build_analyzer", lambda: tokenizer)()
        return words

    def __missing__(self, chunk: str) -> Any:
        kept = self._kept(words(chunk))
        found = self._numbers(kept) if self.last == 1 else kept
        if len(self) < REMEMBERED and len(chunk) < LONGEST:
            self[chunk] = found
        return found

    def of(self, text: Any) -> bytes:
        """The numbers of the words of a text, or of a list of tokens."""
        if isinstance(text, str) and self.phrases is not None:
            text = self.phrases.sub(lambda found: "_".join(found[0].split()), text)
        if isinstance(text, str) and self.tokenize is None:
            found = map(self.__getitem__, text.split())
            return b"".join(found) if self.last == 1 else self._numbers(self._ngrams([*chain.from_iterable(found)]))
        tokens = self.tokenize(text) if isinstance(text, str) and self.tokenize is not None else text
        return self._numbers(self._ngrams(self._kept([str(getattr(token, "text", token)) for token in tokens])))

    def _kept(self, found: list[str]) -> list[str]:
        return [word for word in found if self.key(word) not in self.stop]

    def _ngrams(self, found: list[str]) -> Iterator[str]:
        for n in range(self.first, self.last + 1):
            yield from map(" ".join, zip(*(found[i:] for i in range(n)), strict=False))

    def _numbers(self, names: Iterable[str]) -> bytes:
        found = array("i")
        for name in names:
            number = self.numbers.get(key := self.key(name))
            if number is None:
                number = len(self.names)
                if not self.closed:
                    self.numbers[name if key == name else key] = number
                    self.names.append(name)
            found.append(number)
        return found.tobytes()


def _phrase(phrase: str) -> str:
    return r"\s+".join(map(regex.escape, phrase.split()))


def name_of_tokenizer(tokenizer: Any) -> str | None:
    """By what a model knows a tokenizer again: where it can be imported from, or its settings if those are what it shows."""
    if tokenizer is None or isinstance(tokenizer, str):
        return tokenizer
    if hasattr(tokenizer, "build_analyzer"):
        return repr(tokenizer)
    tokenizer = getattr(tokenizer, "func", tokenizer)  # of a partial function
    named = tokenizer if hasattr(tokenizer, "__qualname__") else type(tokenizer)
    return f"{getattr(named, '__module__', 'builtins')}.{named.__qualname__}"


def without_words(n: int, settings: dict[str, Any], *, any_word: bool) -> str:
    if not any_word:
        return f"no words in {n:,} texts, stop words and single letters aside"
    between = f"at least {settings['min_df']} and at most {settings['max_df']}"
    return f"no word is in {between} of {n:,} texts; lower {parameter('min_df')} or raise {parameter('max_df')}"


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
        "tokenizer": name_of_tokenizer(options.tokenizer),
        "phrases": _phrases(options.phrases),
    }


def words_of(fit: Fit) -> Words:
    """Those of a fit that was made from texts."""
    return Words(fit.text or {}, fit.feature_names.tolist())


def as_before(options: ReadOptions) -> tuple[dict[str, Any], Words]:
    """The settings and the words of the model `like`, which was made from texts in the same way."""
    like = options.like
    if like is None or like.text is None or like.features is None:
        raise ValueError("the model was not made from text; use counts with the names of its features")
    if like.text.get("rules") != RULES:
        raise ValueError("the model counts words in a way this version of unmix does not know; fit it again")
    made, given = like.text.get("tokenizer"), name_of_tokenizer(options.tokenizer)
    if made != given:
        of = {None: "by the rules of unmix", TOKENS: "outside unmix, from lists of tokens"}
        again = "count them in Python: unmix.read(…, like=fit, tokenizer=that function), or read_texts"
        remedy = {None: f"leave {parameter('tokenizer')} out and pass texts", TOKENS: "use lists of tokens, in Python"}
        raise ValueError(
            f"the words of the model were made {of.get(made, f'by {made}')}, these {of.get(given, f'by {given}')}; "
            f"{remedy.get(made, again)}"
        )
    words = like._prepared(words_of)
    return dict(like.text), words if made in (None, TOKENS) else words.tokenized_by(options.tokenizer)


def _document_frequency(name: str, value: int | float | None, default: int | float) -> int | float:
    if value is None:
        return default
    number = isinstance(value, int) and not isinstance(value, bool) and value >= 1
    if number or (isinstance(value, float) and 0 <= value <= 1):
        return value
    raise ValueError(f"{parameter(name, value)}; use a number of documents (1, 2, …) or a share of them (0.0 to 1.0)")


def _ngrams(ngrams: int | tuple[int, int]) -> list[int]:
    first, last = (1, ngrams) if isinstance(ngrams, int) else ngrams
    if not (isinstance(first, int) and isinstance(last, int) and 1 <= first <= last):
        raise ValueError(
            f"{parameter('ngrams', ngrams)}; use 1 for words, 2 for pairs as well, or (2, 2) for pairs alone"
        )
    return [first, last]


def _phrases(given: Phrases) -> list[str] | None:
    """Each as words between blanks: of a file, one per line, or of a list of texts or of lists of words."""
    if given is None:
        return None
    entries = _lines(given, "phrases") if isinstance(given, str | os.PathLike) else given
    return sorted({" ".join([one] if isinstance(one, str) else one) for one in entries} - {""})


def _listed_stop_words(wanted: StopWords) -> str | list[str] | None:
    """'english', None, or a list of words: of a language, from a list or a file."""
    if wanted is None or wanted in ("english", "en"):
        return wanted and "english"
    if isinstance(wanted, str | os.PathLike):
        wanted = _lines(wanted, "stop words") if Path(wanted).is_file() else _words_of_language(str(wanted))
    entries = [words(str(entry)) for entry in wanted]
    return sorted({entry[0] for entry in entries if len(entry) == 1})


def _lines(file: str | os.PathLike[str], what: str) -> list[str]:
    try:
        return lines_of(Path(file))
    except (ValueError, OSError) as error:
        raise ValueError(f"{what} in {file}: {error}") from error


def _words_of_language(name: str) -> list[str]:
    if not name.isalpha():
        known = ", ".join(known_languages())
        raise ValueError(
            f"{parameter('stop_words', name)}: no such file; use one with a word a line, None, or a language: {known}"
        )
    return stop_words_of(name.lower())


def _stop_words(wanted: Any) -> list[str] | None:
    if wanted == "english":
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

        return sorted(ENGLISH_STOP_WORDS | SHORT_FORMS)
    return wanted or None


# Stop words of many languages, from the package stop-words, and a guess at the language from the most widespread words.

# Words that are in nearly every text of a language. Those that English omits anyway (de, un, in, …) would show nothing.
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
MOST, ENOUGH = 25, 5  # this many of the most widespread words of a corpus must be a language's


# What the package has of Greek is ancient.
GREEK = """
    ο η το οι τα του της των τον την τη τους τις ένας ένα μια μία ενός μιας έναν και κι ή είτε ούτε αλλά όμως ωστόσο να θα
    ας δεν δε μην μη μα που πού πως πώς ότι όταν όπως όπου όσο όσα όσοι αν εάν ενώ αφού επειδή γιατί διότι ώστε για με σε
    από ως έως μέχρι προς κατά μετά παρά αντί χωρίς πριν μεταξύ υπό υπέρ περί στο στον στη στην στους στις στα εγώ εσύ εμείς
    εσείς μου σου μας σας αυτός αυτή αυτό αυτοί αυτές αυτά αυτού αυτής αυτών αυτούς αυτόν αυτήν εκείνος εκείνη εκείνο εκείνα
    κάθε κάποιος κάποια κάποιο όλα όλοι όλες όλη όλο άλλο άλλα άλλη άλλος άλλοι άλλες οποίος οποία οποίο οποίοι οποίες
    οποίων οποίους τι ποιος ποια ποιο είναι είμαι είσαι είμαστε είστε ήταν ήμουν έχει έχω έχουν έχουμε είχε είχαν εδώ εκεί
    τώρα τότε πολύ πιο πάρα πάλι ακόμη ακόμα μόνο επίσης έτσι τόσο ήδη μέσα έξω πάνω κάτω όχι ναι λοιπόν δηλαδή καθώς λόγω
    μέσω βάσει
"""
LATIN_5 = str.maketrans("ýþðÝÞÐ", "ışğİŞĞ")  # as which the Turkish words of the package were not read


def stop_words_of(language: str) -> list[str]:
    """The stop words of a language by its English name or its code; a ValueError if there are none."""
    package = extra("stop_words", f"removing the stop words of {language!r}")
    language = package.LANGUAGE_MAPPING.get(language, language)
    if language not in package.AVAILABLE_LANGUAGES:
        raise ValueError(f"no stop words of {language!r}; there are those of {', '.join(known_languages())}")
    if language == "greek":
        return GREEK.split()
    listed = list(package.get_stop_words(language))
    return [word.translate(LATIN_5) for word in listed] if language == "turkish" else listed


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
    """What to say if words that should have been omitted are those of a different language than was asked for."""
    guess = guessed_language(list(widespread)) if isinstance(stop_words, str) and stop_words in WIDESPREAD else None
    if guess is None or guess[0] == stop_words:
        return []
    language, words = guess
    return [
        f"the most widespread words are {', '.join(words[:5])}: {language.capitalize()}? "
        f"{parameter('stop_words', language)} leaves such words out"
    ]


# Scripts that are written without blanks: their letters, how long a run of them is that cannot be a word, and what segments it.
SEGMENTERS = (
    ("Japanese", r"\p{Hiragana}\p{Katakana}", 6, "fugashi.Tagger"),
    ("Chinese", r"\p{Han}", 5, "jieba.lcut"),
    ("Thai", r"\p{Thai}", 14, "pythainlp.word_tokenize"),
    ("Lao", r"\p{Lao}", 14, "laonlp.word_tokenize"),
    ("Khmer", r"\p{Khmer}", 18, "khmernltk.word_tokenize"),
    ("Burmese", r"\p{Myanmar}", 18, "pyidaungsu.tokenize"),
)


def about_segmentation(names: Sequence[str]) -> list[str]:
    """What to say if most words are clauses of a script without blanks.

    >>> about_segmentation(["人人生而自由", "在尊严和权利上一律平等", "free"])[0][:44]
    "'人人生而自由' and many other words look like whol"
    """
    looked_at = names[:: max(1, len(names) // 10_000)]
    others = [name for name in looked_at if not name.isascii()]
    for language, letters, longest, segmenter in SEGMENTERS:
        found = [name for name in others if regex.search(f"[{letters}]", name)]
        long = [name for name in found if len(name) > longest]
        if 2 * len(found) > len(looked_at) and 3 * len(long) > len(found):
            return [
                f"{long[0][:30]!r} and many other words look like whole clauses: {language} is written without blanks; segment "
                f"the texts, such as by {segmenter}, given as {parameter('tokenizer')} in Python, or put blanks between words"
            ]
    return []
