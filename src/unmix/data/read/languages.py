"""Stop words of many languages, from the package stop-words, and a guess at the language from the most widespread words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from unmix.data.read.files import extra

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
        f"stop_words={language!r} leaves such words out"
    ]
