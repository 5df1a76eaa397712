"""Tiny copies of the four large tables: the folders, columns and quirks of the distributions, with invented numbers.

Each function writes below a folder and gives the folder of the files. The first rows are fixed, for tests that look at
single values; the others are drawn by a fixed seed, so that there is something to learn from.
"""

import gzip
import hashlib
from pathlib import Path

import numpy as np

MATRIX_HEADER = "user_id,video_id,play_duration,video_duration,time,date,timestamp,watch_ratio"
DAILY_HEADER = (
    "video_id,date,author_id,video_type,upload_dt,upload_type,visible_status,video_duration,video_width,video_height,"
    "music_id,video_tag_id,video_tag_name,show_cnt,show_user_num,play_cnt,play_user_num,play_duration,"
    "complete_play_cnt,complete_play_user_num,valid_play_cnt,valid_play_user_num,long_time_play_cnt,"
    "long_time_play_user_num,short_time_play_cnt,short_time_play_user_num,play_progress,comment_stay_duration,like_cnt,"
    "like_user_num,click_like_cnt,double_click_cnt,cancel_like_cnt,cancel_like_user_num,comment_cnt,comment_user_num,"
    "direct_comment_cnt,reply_comment_cnt,delete_comment_cnt,delete_comment_user_num,comment_like_cnt,"
    "comment_like_user_num,follow_cnt,follow_user_num,cancel_follow_cnt,cancel_follow_user_num,share_cnt,"
    "share_user_num,download_cnt,download_user_num,report_cnt,report_user_num,reduce_similar_cnt,"
    "reduce_similar_user_num,collect_cnt,collect_user_num,cancel_collect_cnt,cancel_collect_user_num"
)
USER_HEADER = (
    "user_id,user_active_degree,is_lowactive_period,is_live_streamer,is_video_author,follow_user_num,"
    "follow_user_num_range,fans_user_num,fans_user_num_range,friend_user_num,friend_user_num_range,register_days,"
    "register_days_range," + ",".join(f"onehot_feat{number}" for number in range(18))
)
LOG_HEADER = (
    "user_id,video_id,date,hourmin,time_ms,is_click,is_like,is_follow,is_comment,is_forward,is_hate,long_view,"
    "play_time_ms,duration_ms,profile_stay_time,comment_stay_time,is_profile_enter,is_rand,tab"
)
VIDEO_HEADER = (
    "video_id,author_id,video_type,upload_dt,upload_type,visible_status,video_duration,server_width,server_height,"
    "music_id,music_type,tag"
)
TRANSACTIONS_HEADER = (
    "id,chain,dept,category,company,brand,date,productsize,productmeasure,purchasequantity,purchaseamount"
)


def write_lines(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(("\n".join(lines) + "\n").encode())  # line ends as they are shipped, on every system


# KuaiRec: the archive unpacks to a folder with a blank in its name.


def write_kuairec(folder: Path) -> Path:
    random = np.random.default_rng(9)
    data = folder / "KuaiRec 2.0" / "data"
    big = [
        "0,3,13838,10867,2020-07-05 00:08:23.438,20200705,1593878903.438,1.273397",
        "1,0,851,7908,2020-07-05 01:00:25.5,20200705,1593882025.5,0.107613",  # one decimal only
        "1,0,851,7908,2020-07-05 01:00:25.5,20200705,1593882025.5,0.107613",  # the same once more
    ]
    dates = (20200705, 20200712, 20200801, 20200810, 20200827, 20200831, 20200901, 20200905)
    big += [_watched(random, 12, dates[number % len(dates)]) for number in range(237)]
    small = [
        "1,3,4407,7013,,,,0.628404",  # no time at all
        "1,0,4381,6067,2020-07-05 05:27:48.378,20200705.0,1593898068.378,0.722103",  # a date with a decimal
    ]
    small += [_watched(random, 5, "20200801.0") for _ in range(58)]
    write_lines(data / "big_matrix.csv", [MATRIX_HEADER, *big])
    write_lines(data / "small_matrix.csv", [MATRIX_HEADER, *small])
    write_lines(data / "user_features.csv", [USER_HEADER, *(_user(random, user, "0.0") for user in range(12))])
    tags = ["0,[8]", '1,"[27, 9]"', '2,"[5, 6, 7, 8]"', *(f"{video},[{video % 4}]" for video in range(3, 15))]
    write_lines(data / "item_categories.csv", ["video_id,feat", *tags])
    write_lines(data / "social_network.csv", ["user_id,friend_list", "3,[5]", '5,"[3, 7]"'])
    # Never read: what is counted on a day includes the row that is to be predicted.
    daily = ["0", "20200705", "4", "NORMAL", "2020-03-30", "ShortImport", "public", "5966.0", "720", "1280"]
    daily += ["3350323409", "841", "建筑", *["12"] * 41, *[""] * 4]  # the last four are empty on early days
    write_lines(data / "item_daily_features.csv", [DAILY_HEADER, ",".join(daily)])
    (data.parent / "loaddata.py").write_text("# reads the tables\n")
    return data


def _watched(random, n_users, date):
    user, video = random.integers(n_users), random.integers(15)
    duration = 5000 + 1000 * int(video)
    played = int(duration * random.gamma(2 + user % 3, 0.25))
    time = "2020-08-01 12:30:01." + str(random.integers(1, 1000))
    return f"{user},{video},{played},{duration},{time},{date},1596256201.25,{played / duration:.6f}"


def _user(random, user, last):
    """A row of the table of users, which both distributions have; some cells say that they do not know."""
    degree = ["full_active", "high_active", "UNKNOWN", "2_14_day_new"][user % 4]
    codes = [str(random.integers(4)) for _ in range(12)] + [last if user % 3 else ""] * 6
    return f'{user},{degree},0,-124,0,5,"(0,10]",3,"[1,10)",0,0,400,366-730,' + ",".join(codes)


# KuaiRand-Pure.


def write_kuairand(folder: Path) -> Path:
    random = np.random.default_rng(10)
    data = folder / "KuaiRand-Pure" / "data"
    early = [
        "0,10,20220411,1900,1649675512388,0,0,0,0,0,0,0,1385,209900,0,0,0,0,1",
        "0,11,20220409,800,1649675512388,1,0,0,0,0,0,1,25500,10500,0,0,0,0,0",  # watched longer than it lasts
        "1,12,20220409,800,1649675512388,1,0,0,0,0,0,1,2500,4499,0,0,0,0,0",  # too short a video
        "1,13,20220409,800,1649675512388,1,0,0,0,0,0,1,2500,240501,0,0,0,0,0",  # too long a video, by rounding
        "1,14,20220409,800,1649675512388,0,0,0,0,0,0,0,900,0,0,0,0,0,0",  # a duration that is not known
        "2,11,20220410,900,1649675512388,1,1,0,0,0,0,1,3500,10500,0,0,0,0,4",
        "2,11,20220410,900,1649675512388,1,1,0,0,0,0,1,3500,10500,0,0,0,0,4",  # the same once more
    ]
    early += [_impression(random, 20220409 + number % 13, 0) for number in range(193)]
    late = [_impression(random, date, 0) for date in (20220422, 20220428, 20220429, 20220508) for _ in range(25)]
    write_lines(data / "log_standard_4_08_to_4_21_pure.csv", [LOG_HEADER, *early])
    write_lines(data / "log_standard_4_22_to_5_08_pure.csv", [LOG_HEADER, *late])
    at_random = [_impression(random, 20220501, 1) for _ in range(40)]
    write_lines(data / "log_random_4_22_to_5_08_pure.csv", [LOG_HEADER, *at_random])
    write_lines(data / "user_features_pure.csv", [USER_HEADER, *(_user(random, user, "0") for user in range(16))])
    videos = [
        '10,7,NORMAL,2022-04-09,LongImport,public,209900.0,720,1280,55,9.0,"39,68"',
        "11,7,AD,2022-04-09,ShortCamera,public,,720,1280,56,,68",  # no duration, no type of music
        "12,8,UNKNOWN,2022-04-10,UNKNOWN,public,4499.0,720,1280,57,4.0,",  # no tag
        *(f"{video},9,NORMAL,2022-04-11,Web,public,9000.0,720,1280,58,9.0,{video % 3}" for video in range(13, 30)),
    ]
    write_lines(data / "video_features_basic_pure.csv", [VIDEO_HEADER, *videos])
    write_lines(data / "video_features_statistic_pure.csv", ["video_id,counts,show_cnt", "10,31,900.5"])  # never read
    (data.parent / "LICENSE").write_text("CC BY-SA 4.0\n")
    return data


def _impression(random, date, is_random):
    user, video = random.integers(16), random.integers(10, 30)
    duration = 6000 + 2500 * int(video)
    played = int(duration * random.gamma(1.5 + user % 3, 0.3))
    flags = ",".join(str(flag) for flag in random.integers(0, 2, 7))
    return f"{user},{video},{date},1200,1650000000000,{flags},{played},{duration},0,0,0,{is_random},{video % 3}"


# Criteo: no header, tabs, hashes of 32 digits.


def write_criteo(folder: Path) -> Path:
    random = np.random.default_rng(11)
    lines = [
        _click(random, sale=1, amount="59.9", delay=3600, price="59.9", clicks=12, title=2),
        _click(random, sale=0, amount="-1.0", delay=-1, price="0.0", clicks=-1, title=0),  # an empty title
        _click(random, sale=1, amount="120.5", delay=-1, price="120.5", clicks=3, title=1),  # a sale without a delay
        _click(random, sale=1, amount="0.0", delay=60, price="0.0", clicks=5, title=3),  # a sale of nothing
    ]
    for _ in range(296):
        sale = int(random.random() < 0.3)
        amount = f"{random.lognormal(3, 1):.2f}" if sale else "-1.0"
        clicks = int(random.integers(-1, 40))
        lines.append(_click(random, sale, amount, 7200 if sale else -1, amount if sale else "0.0", clicks, title=2))
    data = folder / "Criteo_Conversion_Search"
    write_lines(data / "CriteoSearchData", lines)
    return data


def _click(random, sale, amount, delay, price, clicks, title):
    time = 1596439000 + int(random.integers(0, 7_800_000))  # not in order
    brands = [hash_of("brand", random.integers(8)), "-1"][int(random.random() < 0.2)]
    cells = [hash_of("age", 1), hash_of("device", random.integers(3)), "-1", "-1", brands]
    cells += [hash_of("category", 1, random.integers(5)), hash_of("category", 2, 1), *["-1"] * 5]
    cells += [hash_of("country", random.integers(4)), hash_of("product", random.integers(60))]
    cells.append(" ".join(hash_of("word", random.integers(30)) for _ in range(title)))
    cells += [hash_of("partner", random.integers(5)), hash_of("user", random.integers(90))]
    return "\t".join(map(str, [sale, amount, delay, time, clicks, price, *cells]))


def hash_of(*words):
    return hashlib.md5(repr([str(word) for word in words]).encode()).hexdigest().upper()


# Shoppers: gzipped, one line for each thing that is bought.

SHOPPERS = [
    "86246,205,7,707,1078778070,12564,2012-03-02,12,OZ,1,7.59",  # a company with few lines
    "1,205,7,707,10000,12564,2012-03-02,12,OZ,1,3.00",
    "1,206,9,901,10000,0,2012-03-02,1,,2,5.50",  # the largest line of the first day; it has no measure
    "1,205,7,707,10000,12564,2012-03-02,12,OZ,-1,-2.00",  # brought back
    "1,205,7,707,10000,12564,2013-03-02,12,OZ,1,10.00",  # day 365
    "1,205,7,707,10000,12564,2013-03-03,12,OZ,1,99.00",  # day 366
    "2,205,3,301,10000,111,2012-03-01,12,CT,1,4.00",  # two lines of one amount: the first counts
    "2,205,4,401,10000,222,2012-03-01,12,LB,1,4.00",
    "2,205,4,401,101200010,222,2012-05-01,12,LB,1,2.50",  # the same customer with another company
    "3,205,7,707,10000,12564,2012-07-02,12,OZ,1,8.00",  # a day too late
    "4,205,7,707,10000,12564,2012-07-01,12,OZ,1,8.00",  # the last day, and never again
    "5,205,7,707,10000,12564,2012-02-29,12,OZ,1,1.00",  # a day too early
    "5,205,7,707,10000,12564,2012-03-05,12,OZ,1,1.00",
]
COMPANIES = (10000, 101200010, 103700030)


def write_shoppers(folder: Path) -> Path:
    random = np.random.default_rng(12)
    lines = list(SHOPPERS)
    for customer in range(1000, 1080):
        for company in random.permutation(COMPANIES)[: random.integers(1, 4)]:
            first = np.datetime64("2012-03-01") + random.integers(0, 123)
            for visit in range(random.integers(1, 5)):
                date = first + (random.integers(0, 500) if visit else 0)
                amount = 1 + random.gamma(1 + customer % 4, 3)
                dept, brand = random.integers(1, 9), random.integers(0, 20)
                lines.append(
                    f"{customer},{15 + customer % 3},{dept},{dept}01,{company},{brand},{date},1,CT,1,{amount:.2f}"
                )
    ordered = [TRANSACTIONS_HEADER, *lines]
    folder.mkdir(parents=True, exist_ok=True)
    with gzip.open(folder / "transactions.csv.gz", "wb") as file:
        file.write(("\n".join(ordered) + "\n").encode())
    for name, text in {
        "trainHistory": "id,chain,offer,market,repeattrips,repeater,offerdate\n86246,205,1208251,34,5,t,2013-04-24\n",
        "offers": "offer,category,quantity,company,offervalue,brand\n1208251,2202,1,104460040,2,3718\n",
    }.items():
        with gzip.open(folder / f"{name}.csv.gz", "wb") as file:
            file.write(text.encode())
    return folder


def write_table_sets(root: Path) -> None:
    """The four sets of tables below one folder."""
    for write in (write_kuairec, write_kuairand, write_criteo):
        write(root)
    write_shoppers(root / "shoppers")
