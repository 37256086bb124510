"""Twelve short passages in two languages, and a question about each half of them."""

ENGLISH = (
    "A heat pump moves warmth from outdoor air into the house with little electricity.",
    "Sourdough bread rises because wild yeast and bacteria ferment the flour overnight.",
    "The lighthouse keeper logged the height of the tide twice a day for forty years.",
    "Vaccines train the immune system to recognise a virus before an infection happens.",
    "A mortgage is a loan that is secured by the house it was taken out to buy.",
    "The chess opening ends when both players have developed their pieces.",
)

CHINESE = (
    "热泵把室外空气中的热量搬进屋里，只消耗很少的电。",
    "酸面包会发起来，是因为野生酵母和细菌整夜发酵面粉。",
    "灯塔看守人四十年来每天两次记录潮水的高度。",
    "疫苗让免疫系统在感染发生之前就学会识别病毒。",
    "按揭是用所购买的房屋作抵押的贷款。",
    "当双方都把棋子调动出来，国际象棋的开局就结束了。",
)

ENGLISH_QUESTIONS = (
    "How can a home be heated without burning fuel?",
    "Why does dough made without bought yeast get bigger?",
    "Who wrote down how high the sea was?",
    "How does the body learn to fight a disease it never had?",
    "What happens with the bank's money when I buy a house?",
    "When is the first phase of a chess game over?",
)

CHINESE_QUESTIONS = (
    "不烧燃料怎样给房子供暖？",
    "不加买来的酵母，面团为什么会变大？",
    "谁记下了海水有多高？",
    "身体怎样学会对付一种从没得过的病？",
    "向银行借钱买房，用什么作抵押？",
    "国际象棋的第一阶段什么时候结束？",
)
