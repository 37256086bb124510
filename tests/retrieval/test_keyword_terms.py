"""No leg dead in silence: the keyword leg finds the passage of each of 200 Chinese terms.

Each term stands in one passage among two hundred of the same make. The form in the question may
be another one than in the passage: traditional or simplified, full or half width, spaced.
"""

from __future__ import annotations

import pytest

from localrag.library.indexes.inverted import InvertedKeywords
from localrag.retrieval.hybrid import KeywordRetriever
from localrag.text.tokenize import Tokenizer

# What the passage has, or "passage form=question form" where they differ; _ is a space.
NAMES = """
褚砚秋 邬丽娜 欧阳砺锋 蔺茂才 闻人雪 阮氏秋庄 郗明远 钮祜禄庆安 司徒敬亭 仇小满 单雄飞 解丽君
乐嘉树 尉迟恒 令狐岩 端木蕙 赫连朔 呼延贺 独孤信诚 万俟兰 谌晓燕 逄锦华 亓官文 佘守仁 訾玉昆
郏秀英 於德清 厍天佑 麻立群 牛得草 艾山江 巴特尔 其其格 卓玛拉姆 阿依古丽 约翰·卡特 玛丽-路易丝
安娜·谢苗诺娃
"""
PLACES_AND_THINGS = """
青峰岭 乌裕河 大滩镇 鲤鱼洲 铜鼓坪 柳条湖站 石榴巷 望江亭 卧龙坝 三眼井胡同 白水驿 葫芦岛船厂
鹊山水库 汴西枢纽 云栖路 澜沧变电所 长汀会馆 鹿鸣书院 丰禾粮库 瑞宁医院 捷讯快递 海晏股份
恒越轴承厂 启明仪表 翠屏茶行 紫苏 岩羊 黄檗 鲟鳇鱼 穿山甲 油茶饼 褐煤 硅钢片 连翘 蕨麻 冬凌草
沙蚕 海兔螺 水飞蓟 鹅绒藤 离心泵 减速机 变压器油 滚珠丝杠 蒸发皿 光栅尺 卡规 绞盘 燃烧器 扬尘罩
波纹管 调心轴承
"""
NUMBERS = """
4718台 38.6% 1,284,506元=1284506元 ２０４８千克=2048千克 -17.5℃ 3.14159 1/8英寸 99.97% 12万7千
6,002吨=6002吨 2019年6月17日 1987-03-09 08:45发车 第三百二十一条 甲子年 13800004521 400-820-7755
610021 192.168.14.7 7850kg/m³ 220V=２２０Ｖ 0.05mm 45号钢 二十四节气 壹佰贰拾圆整 ½杯
１５６．３=156.3 10⁶个 五点四公里
"""
CODES = """
GB/T_3620.1=GB/T3620.1 GB/T3620.2=GB/T_3620.2 GB/T7714-2015=GB/T_7714-2015 JB/T10391
Q/SY1342-2016 DL/T860.92 ISO_9001:2015 HT-2024-0815 京A·88F21 CA1852 MU5137 G1024次 K599
T/CECS20007 YY0505-2012=yy0505-2012 CJJ169 SH3501 AQ8011 CN201910123456.7
ISBN978-7-302-1=ISBN_978-7-302-1 XZ-07B Rev.C2 P/N6205-2RS M12×1.75 φ25 DN150 IP67 HRC58
0Cr18Ni9 Q235B HEPA13 RJ45 RS-485 CAT6A NH3-N PM2.5 B12 CO2 H2SO4 K9s R410A 6SN1123 TCP/IP C++
C# .NET log4j2 utf-8
"""
MIXED = """
5G基站 T恤 卡拉OK X光机 维生素D3 α粒子 AA制 PH试纸 U型管 ETC车道 KTV包房 A股 O型圈
WiFi密码=wifi密码 POS机 GPS定位仪 pH值=PH值 iPhone充电线=IPHONE充电线 VPN网关 USB接口
"""
TRADITIONAL = """
臺灣烏龍=台湾乌龙 憂鬱=忧郁 颱風眼=台风眼 蘇繡=苏绣 齋飯=斋饭 電腦鍵盤=电脑键盘
歷史檔案=历史档案 龜甲=龟甲 鹽鹼地=盐碱地 纜車=缆车 灶臺=灶台 雞毛撣子=鸡毛掸子 體溫計=体温计
麵粉=面粉 頭髮=头发 後視鏡=后视镜 乾燥劑=干燥剂 葉輪=叶轮 礦燈=矿灯 鐘錶匠=钟表匠 蠟燭=蜡烛
雙層玻璃=双层玻璃 鑰匙=钥匙 驗鈔機=验钞机 证书编号=證書編號 显微镜=顯微鏡 压缩机=壓縮機
绿萝=綠蘿 围巾=圍巾 滤芯=濾芯 铁锹=鐵鍬 邮戳=郵戳 饮水机=飲水機 凿岩机=鑿巖機
"""

PASSAGES = (
    "仓库本月的盘点单里列有{term}，保管员已经签字，其余各项与上月相同。",
    "会议纪要写明，{term}由第二小组负责，下周一以前把情况报到办公室。",
    "关于{term}，验收时没有发现问题，相关材料已经归入年度卷宗。",
    "展板的第三部分介绍了{term}，参观的人可以在旁边领取一份说明。",
)
QUESTIONS = ("{term}是怎么回事？", "请问哪里提到了{term}？", "关于{term}有什么记录？")


def terms() -> list[tuple[str, str]]:
    """(form in the passage, form in the question), each passage form once."""
    names_and_words = f"{NAMES} {PLACES_AND_THINGS} {NUMBERS} {CODES} {MIXED} {TRADITIONAL}"
    pairs: dict[str, str] = {}
    for word in names_and_words.split():
        headword, _, spelling = word.replace("_", " ").partition("=")
        pairs.setdefault(headword, spelling or headword)
    return list(pairs.items())


TERMS = terms()


@pytest.fixture(scope="module")
def keyword() -> KeywordRetriever:
    tokenize, index = Tokenizer(), InvertedKeywords()
    passages = [
        PASSAGES[number % len(PASSAGES)].format(term=term) for number, (term, _) in enumerate(TERMS)
    ]
    index.apply((), enumerate(map(tokenize, passages)), ("e", 1))
    return KeywordRetriever(tokenize, index)


def test_there_are_two_hundred() -> None:
    assert len(TERMS) >= 200


def test_the_seeded_passage_is_found(keyword: KeywordRetriever) -> None:
    faults = []
    for number, (_, term) in enumerate(TERMS):
        question = QUESTIONS[number % len(QUESTIONS)].format(term=term)
        hits = [hit.chunk_id for hit in keyword.retrieve(question, 3)]
        if number not in hits:
            faults.append(f"{question}: {[TERMS[hit][0] for hit in hits]}")
    assert not faults, "\n".join(faults)
