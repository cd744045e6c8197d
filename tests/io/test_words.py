"""Words are those that readers of a language see: letters keep their marks, and the same rules count new texts."""

from __future__ import annotations

import importlib.util
import sys
import unicodedata
from functools import partial

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer

import unmix as um
from unmix.io.read.words import SEGMENTERS, _stop_words, words

# a sentence, and its words as a reader would list them, between blanks; single letters of alphabets are not counted
SCRIPTS = {
    "English": (
        "America’s 2nd “p53” genes don't; O'Brien's well-known cats.",
        "america p53 genes don't o'brien well known cats",
    ),
    "German": ("Die Straße führt über Köln, STRASSE!", "die straße führt über köln strasse"),
    "French": ("L’homme qu'elle aime, aujourd'hui d’été", "homme elle aime aujourd'hui été"),
    "Italian": ("Nell'arte un'altra città dell’Italia", "arte altra città italia"),
    "Catalan": ("La col·lecció de l'Ajuntament", "la col·lecció de ajuntament"),
    "Turkish": ("İnsan hakları, İstanbul'da IŞIK", "insan hakları istanbul'da işik"),
    "Vietnamese": ("Mọi người sinh ra đều được tự do", "mọi người sinh ra đều được tự do"),
    "Greek": ("Όλοι οι άνθρωποι, ΛΌΓΟΣ και λόγος", "όλοι οι άνθρωποι λόγος και λόγος"),
    "Russian": ("Все люди рождаются свободными; ёлка", "все люди рождаются свободными ёлка"),
    "Ukrainian": ("Об'єднані Нації, пам’ять і совість", "об'єднані нації пам'ять совість"),
    "Ukrainian, its own apostrophe": ("Обʼєднані пам‘ять", "об'єднані пам'ять"),
    "Uzbek": ("Barcha odamlar teng bo‘lib tug`iladilar", "barcha odamlar teng bo'lib tug'iladilar"),
    "Hawaiian": ("Hānau kūʻokoʻa ʻia nā kānaka", "hānau kūʻokoʻa ʻia nā kānaka"),
    "Yoruba": ("iyì àti ẹ̀tọ́ kọ̀ọ̀kan", "iyì àti ẹ̀tọ́ kọ̀ọ̀kan"),
    "Urdu": ("تمام انسان آزاد پیدا ہوئے ہیں۔", "تمام انسان آزاد پیدا ہوئے ہیں"),
    "Gujarati": ("પ્રતિષ્ઠા અને અધિકારોની દૃષ્ટિએ", "પ્રતિષ્ઠા અને અધિકારોની દૃષ્ટિએ"),
    "Sinhala": ("සියලු මනුෂ්‍යයෝ නිදහස්ව", "සියලු මනුෂ්‍යයෝ නිදහස්ව"),
    "Malayalam": ("മനുഷ്യരെല്ലാവരും അന്തസ്സോടും", "മനുഷ്യരെല്ലാവരും അന്തസ്സോടും"),
    "Tibetan, its syllables": ("འགྲོ་བ་མིའི་རིགས།", "འགྲོ བ མིའི རིགས"),
    "Armenian": ("Բոլոր մարդիկ ծնվում են ազատ։", "բոլոր մարդիկ ծնվում են ազատ"),
    "Georgian": ("ყველა ადამიანი იბადება თავისუფალი.", "ყველა ადამიანი იბადება თავისუფალი"),
    "Hebrew, pointed": ('שָׁלוֹם לְכָל בְּנֵי אָדָם, צה"ל', 'שָׁלוֹם לְכָל בְּנֵי אָדָם צה"ל'),
    "Arabic, vowelled": ("يُولَدُ جَمِيعُ النَّاسِ أَحْرَارًا،", "يُولَدُ جَمِيعُ النَّاسِ أَحْرَارًا"),
    "Persian": ("تمام افراد می\u200cتوانند آزاد باشند.", "تمام افراد می\u200cتوانند آزاد باشند"),
    "Hindi": ("मानव अधिकारों के प्रति उपेक्षा।", "मानव अधिकारों के प्रति उपेक्षा"),
    "Bengali": ("সমস্ত মানুষ স্বাধীনভাবে জন্মগ্রহণ করে।", "সমস্ত মানুষ স্বাধীনভাবে জন্মগ্রহণ করে"),
    "Tamil": ("மனிதப் பிறவியினர் சகலரும் சுதந்திரமாகவே.", "மனிதப் பிறவியினர் சகலரும் சுதந்திரமாகவே"),
    "Telugu": ("ప్రతిపత్తిస్వత్వముల విషయమున మానవులు", "ప్రతిపత్తిస్వత్వముల విషయమున మానవులు"),
    "Amharic": ("የሰው ልጅ ሁሉ ሲወለድ ነጻ፡፡", "የሰው ልጅ ሁሉ ሲወለድ ነጻ"),
    "Korean": ("모든 인간은 물 한 잔, 자유롭다.", "모든 인간은 물 한 잔 자유롭다"),
    "Chinese, segmented": ("人 人 生而自由 ， 在 尊严 上", "人 人 生而自由 在 尊严 上"),
    "Japanese, segmented": ("すべて の 人間 は 、 コンピューター を", "すべて の 人間 は コンピューター を"),
    "Thai, segmented": ("มนุษย์ ทั้งหลาย เกิด มา มี อิสระ", "มนุษย์ ทั้งหลาย เกิด มา มี อิสระ"),
    "Khmer, zero-width blanks": ("មនុស្ស\u200bទាំងអស់\u200bកើត\u200bមក", "មនុស្ស ទាំងអស់ កើត មក"),
    "Lao, segmented": ("ມະນຸດ ທຸກຄົນ ເກີດ ມາ", "ມະນຸດ ທຸກຄົນ ເກີດ ມາ"),
    "Burmese, segmented": ("လူတိုင်း သည် တူညီ လွတ်လပ်", "လူတိုင်း သည် တူညီ လွတ်လပ်"),
}


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_words_are_those_that_readers_see_however_accents_are_encoded(script, form):
    text, expected = SCRIPTS[script]
    composed = [unicodedata.normalize("NFC", word) for word in expected.split(" ")]
    assert words(unicodedata.normalize(form, text)) == composed


def test_there_are_more_than_twenty_scripts():
    assert len(SCRIPTS) > 20


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("new_york _emphasis_ __init__ x_1", "new_york emphasis init x_1"),
        ("C++ and C#, g++; F# a#b issue #7", "c++ and c# g++ f# issue"),
        ("#MeToo @NASA user@host &#x27;", "#metoo @nasa user host x27"),
        ("covid-19 (Covid-19), F-16s, well-known, 2019-20", "covid-19 covid-19 f-16s well known"),
        ("U.S. e.g. end.Next 3.5 p.m.", "u.s e.g end next p.m"),
        ("soft\u00adhyphen \u200eleft\u200e \ufeffbom", "softhyphen left bom"),
        ("rock'n'roll 'quoted' dogs' James's", "rock'n'roll quoted dogs james"),
        ("1984 2nd 5G ²", ""),
    ],
)
def test_signs_inside_of_words(text, expected):
    assert words(text) == expected.split()


def test_words_are_compared_by_case_folding_and_named_as_they_are_written_first():
    counts = um.read_texts(["Die Straße, λόγος", "STRASSE ΛΌΓΟΣ"], stop_words=None, min_df=1)
    assert counts.features.tolist() == ["die", "straße", "λόγος"]
    assert counts.csr.toarray().tolist() == [[1, 1, 1], [0, 1, 1]]
    fit = um.TopicModel(1, random_state=0).fit(counts).result_
    assert um.read_texts(["STRASSE"], like=fit).csr.toarray().tolist() == [[0, 1, 0]]


UNSEGMENTED = {
    "Chinese": ["人人生而自由，在尊严和权利上一律平等", "他们赋有理性和良心，并应以兄弟关系的精神相对待"],
    "Japanese": ["すべての人間は、生まれながらにして自由であり", "かつ、尊厳と権利とについて平等である"],
    "Thai": ["มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกัน", "ในเกียรติศักดิ์และสิทธิต่างมีเหตุผลและมโนธรรม"],
    "Khmer": ["មនុស្សទាំងអស់កើតមកមានសេរីភាព", "និងសមភាពក្នុងផ្នែកសេចក្ដីថ្លៃថ្នូរ"],
    "Lao": ["ມະນຸດທຸກຄົນເກີດມາມີກຽດສັກສີ", "ສິດທິເສລີພາບແລະຄວາມສະເໝີພາບ"],
    "Burmese": ["လူတိုင်းသည်တူညီလွတ်လပ်သောဂုဏ်သိက္ခာ", "လူအချင်းချင်းမေတ္တာထား၍ဆက်ဆံကျင့်သုံးသင့်၏"],
}


@pytest.mark.parametrize("language", UNSEGMENTED)
def test_a_script_without_blanks_is_noted_with_what_segments_it(language):
    (segmenter,) = (name for known, _, _, name in SEGMENTERS if known == language)
    with pytest.warns(UserWarning, match=f"{language} is written without blanks; .*{segmenter}.* tokenizer"):
        um.read_texts(UNSEGMENTED[language])
    with pytest.raises(ValueError, match=f"no word is in .* {language} is written without blanks"):
        um.read_texts(UNSEGMENTED[language], min_df=2)


@pytest.mark.parametrize("script", [name for name in SCRIPTS if "segmented" in name])
def test_a_segmented_text_is_not_noted(script, recwarn):
    um.read_texts([SCRIPTS[script][0]], min_df=1)
    assert not [warning for warning in recwarn if "without blanks" in str(warning.message)]


def test_stop_words_by_the_code_of_a_language_and_of_modern_greek_and_turkish():
    pytest.importorskip("stop_words")
    for code, name in {"de": "german", "el": "greek", "en": "english"}.items():
        settings = [um.read_texts(["ein Wort", "word"], stop_words=asked).text for asked in (code, name)]
        assert settings[0] == settings[1]
    greek = um.read_texts(["και να του της ο λόγος για τον άνθρωπο που είναι"], stop_words="greek")
    assert greek.features.tolist() == ["άνθρωπο", "λόγος"]
    turkish = um.read_texts(["altmış şey beş hakkında insan"], stop_words="tr")
    assert {"altmış", "beş"}.isdisjoint(turkish.features)
    assert "insan" in turkish.features


# tokens and tokenizers


def shout(text: str) -> list[str]:
    return text.upper().split()


class Token:
    """As spaCy has them."""

    def __init__(self, text: str) -> None:
        self.text = text


def pipeline(text: str) -> list[Token]:
    return [Token(word) for word in text.split()]


def fitted(counts: um.Counts) -> um.Fit:
    return um.TopicModel(1, random_state=0).fit(counts).result_


def test_lists_of_tokens_are_counted_as_they_are_and_so_are_new_ones(tmp_path):
    counts = um.read_texts([["new_york", "C++", "人"], ["C++", "c++", "the"]])
    assert counts.features.tolist() == ["C++", "c++", "new_york", "人"], "stop words aside"
    fitted(counts).save(tmp_path / "fit.safetensors")
    fit = um.load(tmp_path / "fit.safetensors")
    assert um.read_texts([["人", "人", "new"]], like=fit).csr.toarray().tolist() == [[0, 0, 0, 2]]
    assert np.allclose(fit.transform([["人"]]), 1)
    with pytest.raises(
        ValueError, match="from lists of tokens, these by the rules of unmix; use lists of tokens, in Python"
    ):
        fit.transform(["new york"])
    snippets = um.read_texts([["bees", "hum"]], snippets=True).metadata["snippet"]
    assert snippets.tolist() == ["bees hum"]


@pytest.mark.parametrize(
    ("tokenizer", "name", "features"),
    [
        (shout, "test_words.shout", ["BEES", "HUM"]),
        (partial(shout), "test_words.shout", ["BEES", "HUM"]),
        (pipeline, "test_words.pipeline", ["bees", "hum"]),
        (str.split, "builtins.str.split", ["bees", "hum"]),
        (
            CountVectorizer(analyzer="char", ngram_range=(2, 2)),
            "CountVectorizer(analyzer='char', ngram_range=(2, 2))",
            None,
        ),
    ],
)
def test_a_tokenizer_is_remembered_by_its_name_and_asked_for_again(tokenizer, name, features, tmp_path):
    counts = um.read_texts(["bees hum", "bees"], tokenizer=tokenizer)
    assert features is None or counts.features.tolist() == features
    assert counts.text["tokenizer"] == name
    fitted(counts).save(tmp_path / "fit.safetensors")
    fit = um.load(tmp_path / "fit.safetensors")
    with pytest.raises(
        ValueError, match=r"rules of unmix; count them in Python: unmix\.read\(…, like=fit, tokenizer=that function\)"
    ):
        fit.transform(["bees hum"])
    with pytest.raises(ValueError, match=r"these by test_words\.other"):
        um.read_texts(["bees hum"], like=fit, tokenizer=other)
    again = um.read_texts(["bees hum", "bees"], like=fit, tokenizer=tokenizer)
    assert (again.csr != counts.csr).nnz == 0


def other(text: str) -> list[str]:
    return []


def test_a_tokenizer_is_for_files_and_shards_too(tmp_path):
    (tmp_path / "a.txt").write_text("bees hum\nwasps\n")
    counts = um.read(tmp_path / "a.txt", tokenizer=shout)
    shards = um.shard(tmp_path / "a.txt", tmp_path / "shards", tokenizer=shout)
    again = um.shard(tmp_path / "a.txt", tmp_path / "shards", tokenizer=shout)
    assert counts.features.tolist() == shards.features.tolist() == again.features.tolist() == ["BEES", "HUM", "WASPS"]
    with pytest.raises(
        ValueError, match=r"the words of the model were made by the rules of unmix.*leave tokenizer out"
    ):
        um.read_texts(["a b"], like=fitted(um.read_texts(["bees hum"])), tokenizer=shout)


def test_loading_a_fit_imports_nothing_by_a_name_in_it(tmp_path):
    counts = um.read_texts(["bees hum"], tokenizer=shout)
    counts.text["tokenizer"] = "wave.open"
    fitted(counts).save(tmp_path / "fit.safetensors")
    sys.modules.pop("wave", None)
    assert importlib.util.find_spec("wave") is not None
    with pytest.raises(ValueError, match=r"were made by wave\.open"):
        um.load(tmp_path / "fit.safetensors").transform(["bees"])
    assert "wave" not in sys.modules


def test_phrases_stay_whole_in_new_texts_too(tmp_path):
    (tmp_path / "phrases.txt").write_text("new york\nprime minister\n")
    texts = ["New  York is new", "the Prime\nMinister of New York", "minister"]
    for phrases in (["New York", ("prime", "minister")], tmp_path / "phrases.txt"):
        counts = um.read_texts(texts, phrases=phrases, stop_words=None, min_df=1)
        assert counts.features.tolist() == ["is", "minister", "new", "new_york", "of", "prime_minister", "the"]
        again = um.read_texts(texts, like=fitted(counts))
        assert (again.csr != counts.csr).nnz == 0
    with pytest.raises(ValueError, match="phrases is for texts, and these are lists of tokens"):
        um.read_texts([["a"]], phrases=["a b"])


class Dictionary:
    """As gensim has them."""

    def __init__(self) -> None:
        self.token2id = {"red": 0, "wine": 2, "rose": 1}


DICTIONARIES = [Dictionary(), Dictionary().token2id, {0: "red", 1: "rose", 2: "wine"}, ["red", "rose", "wine"]]


@pytest.mark.parametrize("dictionary", DICTIONARIES)
def test_bags_of_words_with_a_dictionary(dictionary):
    counts = um.read_texts([[(0, 2), (2, 1)], [], [(1, 3)]], dictionary=dictionary, samples=["a", "b", "c"])
    assert counts.features.tolist() == ["red", "rose", "wine"]
    assert counts.csr.toarray().tolist() == [[2, 0, 1], [0, 0, 0], [0, 3, 0]]
    assert counts.text is None


def test_bags_of_words_by_name_and_bad_ones():
    assert um.read_texts([{"wine": 2}, {"red": 1, "wine": 1}]).csr.toarray().tolist() == [[0, 2], [1, 1]]
    with pytest.raises(ValueError, match="bags of words name the word 0 by its number; use its dictionary"):
        um.read_texts([[(0, 2)]])
    with pytest.raises(ValueError, match="no word 7 in the dictionary of 1 words"):
        um.read_texts([[(7, 2)]], dictionary=["a"])
    with pytest.raises(ValueError, match=r"texts\[1\] is 3; use strings"):
        um.read_texts(["a", 3])
    with pytest.raises(ValueError, match=r"texts\[1\] is a list of tokens, others are strings"):
        um.read_texts(["a", ["b"]])
    with pytest.raises(ValueError, match="min_df is for texts, and these are counts"):
        um.read_texts([{"wine": 2}], min_df=1)


@pytest.mark.parametrize("ngrams", [1, 2, (2, 3)])
def test_what_is_remembered_changes_no_count(ngrams, monkeypatch):
    texts = ["the bees of new york hum, the bees hum", "new bees", "York’s bees hum new hums"]
    whole = um.read_texts(texts, ngrams=ngrams, min_df=1)
    monkeypatch.setattr("unmix.io.read.words.REMEMBERED", 0)
    anew = um.read_texts(texts, ngrams=ngrams, min_df=1)
    assert whole.features.tolist() == anew.features.tolist()
    assert (whole.csr != anew.csr).nnz == 0
    oracle = CountVectorizer(
        tokenizer=words, token_pattern=None, ngram_range=(1, ngrams) if isinstance(ngrams, int) else ngrams
    )
    oracle.set_params(stop_words=_stop_words("english"))
    assert whole.csr.toarray().tolist() == oracle.fit_transform(texts).toarray().tolist()
    assert whole.features.tolist() == oracle.get_feature_names_out().tolist()


@pytest.mark.parametrize("free", [1e12, 0.0])
def test_counts_that_memory_has_no_room_for_are_the_same(free, tmp_path, monkeypatch):
    texts = [" ".join(f"w{(i * j) % 97}" for j in range(1, 40)) for i in range(2_500)] + ["w1 " * 70_000]
    (tmp_path / "a.txt").write_text("\n".join(texts))
    whole = um.read(tmp_path / "a.txt")
    monkeypatch.setattr("unmix.io.read.text.KEPT", 100_000)
    if not free:

        def full() -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("tempfile.TemporaryFile", full)
    again, shards = um.read(tmp_path / "a.txt"), um.shard(tmp_path / "a.txt", tmp_path / "shards")
    assert again.features.tolist() == whole.features.tolist() == shards.features.tolist()
    assert (again.csr != whole.csr).nnz == 0
    assert whole.csr.max() == 70_000
    assert (shards.take(np.arange(len(texts))).csr != whole.csr).nnz == 0
