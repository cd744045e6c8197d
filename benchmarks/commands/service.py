"""`service`: how long one text takes in a loaded model, as in a web service, beside CountVectorizer and LDA of scikit-learn.

Texts are drawn from topics over made-up words. Every program answers one text per call, all in turn, in one process.
"""

from argparse import ArgumentParser, Namespace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np

from benchmarks.measure import in_fresh_process
from benchmarks.table import publish

TEXTS, WORDS = 500, 300  # of the fit, and words of one
ASKED, SHORT = 300, 100  # texts asked for, and words of one


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--vocabulary", type=int, default=33_000, help="words of the model (default 33000)")


def main(arguments: Namespace) -> None:
    sizes = {"vocabulary": arguments.vocabulary, "topics": arguments.k}
    rows = in_fresh_process("benchmarks.commands.service:seconds_of", threads=arguments.threads, **sizes)
    publish(rows, f"One text per call, {arguments.vocabulary:,} words, {arguments.k} topics", "service", arguments.out)


def seconds_of(vocabulary: int, topics: int) -> list[dict]:
    import warnings

    from sklearn.decomposition import LatentDirichletAllocation
    from sklearn.feature_extraction.text import CountVectorizer

    import unmix as um

    warnings.simplefilter("ignore")
    rng, letters = np.random.default_rng(0), list("abcdefghijklmnopqrstuvwxyz")
    words = sorted({"".join(rng.choice(letters, rng.integers(4, 12))) for _ in range(vocabulary + vocabulary // 5)})
    words = rng.permutation(words)[:vocabulary]
    chances = 1 / np.arange(1, vocabulary + 1)
    texts = [" ".join(rng.choice(words, WORDS, p=chances / chances.sum())) for _ in range(TEXTS)] + [" ".join(words)]
    asked = [" ".join(rng.choice(words, SHORT, p=chances / chances.sum())) for _ in range(ASKED)]
    X = um.read_texts(texts, min_df=1)
    answer, first = {}, {}
    with TemporaryDirectory() as folder:
        for kind in (um.TopicModel, um.LDA):
            path, name = Path(folder, f"{kind.__name__}.safetensors"), f"unmix {kind.__name__}"
            kind(topics, max_iter=2, tol=0, random_state=0).fit(X).result_.save(path)
            answer[name] = um.load(path).transform
    counter = CountVectorizer(stop_words="english").fit(texts)
    peer = LatentDirichletAllocation(topics, max_iter=2, random_state=0).fit(counter.transform(texts))
    answer["scikit-learn"] = lambda texts: peer.transform(counter.transform(texts))
    seconds = {name: [] for name in answer}
    for text in asked:
        for name, ask in answer.items():
            start = perf_counter()
            ask([text])
            seconds[name].append(perf_counter() - start)
            first.setdefault(name, seconds[name][0])
    return [
        {
            "program": name,
            "ms per text, median": 1e3 * float(np.median(times[1:])),
            "99th percentile": 1e3 * float(np.quantile(times[1:], 0.99)),
            "first text": 1e3 * first[name],
        }
        for name, times in seconds.items()
    ]
