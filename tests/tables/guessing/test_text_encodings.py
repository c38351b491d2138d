"""The encoding of a text file, guessed from its bytes."""

import gzip

import pytest

from pmvge.tables.guessing.text_encodings import guess_encoding, likely_encoding
from pmvge.tables.guessing.text_files import sniff_text

CHINESE = "f1,流浪地球\nf2,霸王别姬\nf3,一个都不能少，有话好好说\nf4,大红灯笼高高挂\n"
TRADITIONAL = "f1,臥虎藏龍\nf2,悲情城市\nf3,飲食男女\nf4,牯嶺街少年殺人事件\nf5,一一\n"
JAPANESE = "f1,千と千尋の神隠し\nf2,となりのトトロ\nf3,東京物語\nf4,スーパーマン\n"
KOREAN = "f1,기생충\nf2,살인의 추억\nf3,올드보이\nf4,봄 여름 가을 겨울 그리고 봄\n"
FRENCH = "f1,Les Quatre Cents Coups\nf2,À bout de souffle\nf3,“Été” – 5 €\nf4,Où êtes-vous allés?\n"
GERMAN = "f1,Größe\nf2,Fußgängerübergänge\nf3,Ärger\nf4,ÄÖÜ äöüß\n"
PORTUGUESE = "f1,AÇÃO\nf2,LIÇÕES\nf3,CORAÇÃO\n"
POLISH = "f1,Krótki film o miłości\nf2,Popiół i diament\nf3,Nóż w wodzie\n"
PREFECTURES = "1,北海道\n2,青森県\n3,秋田県\n4,東京都\n5,京都府\n6,大阪府\n"
JAPANESE_NAMES = "1,佐藤健\n2,山田花子\n3,渡辺謙\n4,小林薫\n5,濱田岳\n"
CHINESE_NAMES = "1,李鑫\n2,张婷婷\n3,刘琪\n4,陈妍\n5,王喆\n6,林昊\n7,朱镕基\n8,高琳\n"
RARE_NAMES = "1,张伟\n2,李娜\n3,王芳\n4,刘𠮷\n5,赵䶮\n"  # of four bytes in GB18030
APOSTROPHES = "1,It’s\n2,Don’t\n3,We’re\n4,I’m\n5,L’amour\n6,You’ve\n7,He’d\n"
RUSSIAN = "f1,Иваново детство\nf2,Сталкер\nf3,Летят журавли\nf4,Москва слезам не верит\n"


@pytest.mark.parametrize(
    ("text", "codec", "wanted"),
    [
        (CHINESE, "gbk", "gb18030"),
        (CHINESE, "gb2312", "gb18030"),
        (TRADITIONAL, "big5", "big5"),
        (JAPANESE, "shift_jis", "cp932"),
        (JAPANESE, "euc_jp", "euc_jp"),
        (KOREAN, "euc_kr", "cp949"),
        (PREFECTURES, "shift_jis", "cp932"),
        (JAPANESE_NAMES, "cp932", "cp932"),
        (CHINESE_NAMES, "gbk", "gb18030"),
        (RARE_NAMES, "gb18030", "gb18030"),
        (TRADITIONAL, "gbk", "gb18030"),
        (FRENCH, "cp1252", "cp1252"),
        (APOSTROPHES, "cp1252", "cp1252"),  # valid in Shift-JIS, too
        (GERMAN, "latin-1", "cp1252"),
        (PORTUGUESE, "latin-1", "cp1252"),
        ("f1,\x81\x8d\n", "latin-1", "latin-1"),
        (POLISH, "cp1250", "cp1252"),  # wrong letters, but no others
        (RUSSIAN, "cp1251", "cp1252"),
        (RUSSIAN, "koi8-r", "cp1252"),
        (RUSSIAN.upper(), "cp1251", "cp1252"),
    ],
)
def test_likely_encodings(text, codec, wanted) -> None:
    data = text.encode(codec)
    assert likely_encoding(data) == wanted
    assert likely_encoding(b"id,title\r\n" * 20 + data * 50) == wanted
    if wanted not in ("cp1252", "latin-1"):
        assert data.decode(wanted) == text


@pytest.mark.parametrize("codec", ["utf-8", "cp1252", "gbk"])
def test_the_first_letter_beyond_ascii_may_come_late(tmp_path, codec) -> None:
    text = "id,title\n" + "".join(f"{n},a\n" for n in range(300_000)) + CHINESE
    if codec == "cp1252":
        text = text.removesuffix(CHINESE) + FRENCH
    wanted = {"gbk": "gb18030"}.get(codec, codec)
    (tmp_path / "a.csv").write_bytes(text.encode(codec))
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(text.encode(codec), 1))
    assert guess_encoding(tmp_path / "a.csv") == guess_encoding(tmp_path / "a.csv.gz") == wanted


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("text", [CHINESE, FRENCH], ids=["Chinese", "French"])
def test_utf_16_needs_no_encoding(tmp_path, codec, text) -> None:
    (tmp_path / "a.csv").write_bytes(("id,title\n" + text).encode(codec))
    found = sniff_text(tmp_path / "a.csv")
    assert found.dialect.encoding == "utf-8"
    assert found.rows[0] == ["id", "title"]
