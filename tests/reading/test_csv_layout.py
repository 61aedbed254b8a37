"""How a CSV is laid out, by its first lines; what makes its columns uncertain is refused."""

import pytest

from ppkit.reading.csv_layout import Unfit, layout_of
from ppkit.reading.first_bytes import HEAD


def refused(content: str) -> str:
    with pytest.raises(Unfit) as caught:
        layout_of(content.encode()[:HEAD])
    assert "\n" not in str(caught.value)
    return str(caught.value)


UNCERTAIN = {
    "Spark without a header": ("0,1.5,2\n1,2.5,3\n", "has no header: its first line holds numbers"),
    "whole numbers without a header": ("7,1,234\n8,0,5\n", "has no header: its first line holds"),
    "a name twice": ("id,x,y,x\n1,2,3,4\n", "has two columns with the name 'x': take one out or"),
    "a comma at the end": ("id,x\na,1,\nb,2,\n", "has one field more in its rows than names in"),
    "Spark's quotes": (
        'id,x,y\n"a\\"b, c",1,2\nd,3,4\n',
        "has 4 fields in a row below a header of 3 columns, so that its columns are uncertain: put "
        "texts that hold the separator between quotes, and write quotes inside a text twice, in "
        "Spark by option('escape', '\"')",
    ),
    "Spark's quotes in each row": (
        "id,x,y\n" + "".join(f'{i},"he said \\"a, b\\"",{i}\n' for i in range(5)),
        "has 4 fields in a row below a header of 3 columns, so that its columns are uncertain: put "
        "texts that hold the separator between quotes, and write quotes inside a text twice, in "
        "Spark by option('escape', '\"')",
    ),
    "Spark's quotes over two lines": (
        "id,x,y\n" + '1,"he said \\"a, b\\"\n2 lines",3\n' * 5,
        "has 2 fields in a row below a header of 3 columns, so that its columns are uncertain: ",
    ),
    "a longer row after a hundred": (
        "id,x\n" + "1,2\n" * 200 + "1,2,3\n",
        "has 3 fields in a row below a header of 2 columns, so that its columns are uncertain: "
        "put texts that hold the separator between quotes",
    ),
    "a quote that is not closed": (
        'id,x\na,"1\n' + "b,2\n" * 50_000,
        "has a text of more than 131,072 characters, as where a quote is not closed: write quotes",
    ),
    "thousands unquoted": (
        "id,x,y\na,1,234,2\nb,3,4\n",
        "has 4 fields in a row below a header of 3 columns, so that its columns are uncertain: "
        "put texts that hold the separator between quotes",
    ),
}


@pytest.mark.parametrize("content, sentence", UNCERTAIN.values(), ids=UNCERTAIN.keys())
def test_columns_that_are_uncertain_are_refused(content, sentence):
    said = refused(content)
    assert said.startswith(sentence) and "a\\" not in said and "234" not in said


@pytest.mark.parametrize(
    "fields, mark",
    [
        (["1,5", "2,25"], ","),
        (["1,5E-05", "-0,25"], ","),
        (["0,123"], ","),  # no thousands begin with 0
        (["1,5", "2.5"], "."),  # not certain: pandas leaves one of them a text
        (["1,234", "12,345,678"], "."),  # thousands, a text then
        (["12", "x"], "."),
    ],
)
def test_a_decimal_comma_is_taken_only_where_it_is_certain(fields, mark):
    lines = "".join(f"a;{field}\n" for field in fields)
    assert layout_of(f"id;x\n{lines}".encode()).decimal == mark


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_a_comma_in_the_name_of_a_column_is_no_separator(separator):
    header = separator.join(["id", "income, EUR", "x", "y", "z"])
    row = separator.join(["a", "{}", "1", "2", "3"])
    for numbers, decimal in ((["950.5", "1.25"], "."), (["950,5", "1,25"], ",")):
        lines = "".join(f"{row}\n".format(number) for number in numbers)
        layout = layout_of(f"{header}\n{lines}".encode())
        assert (layout.separator, layout.decimal) == (separator, decimal)


def test_a_comma_in_each_name_and_a_decimal_comma_in_each_number():
    """By commas, too, each row has as many fields as the header."""
    layout = layout_of(b"id;a, EUR;b, EUR\n1;1,5;2,5\n2;3,5;4,5\n")
    assert (layout.separator, layout.decimal) == (";", ",")
    assert layout_of(b"id;a, EUR;b\n").separator == ";"


def test_another_separator_in_the_name_of_a_column_is_none():
    assert layout_of(b"id,a;b,c|d\nx,1,2\ny,3,4\n").separator == ","
    assert layout_of(b"id\n1\n2\n").separator == ","


@pytest.mark.parametrize("separator", [";", "\t", "|"])
@pytest.mark.parametrize(
    "fields",
    [
        ["950", "1.200", "12.500", "999", "45.000"],
        ["1.200"],
        ["-1.200", "", "0"],
        ["950"] * 200 + ["1.200"],
        ["1,5"] * 200 + ["1.234"],
    ],
    ids=lambda fields: " ".join(fields[-3:]),
)
def test_points_that_may_mark_thousands_are_refused(fields, separator):
    lines = "".join(separator.join(["a", field, "1.5"]) + "\n" for field in fields)
    assert refused(separator.join(["id", "income", "x"]) + "\n" + lines) == (
        "holds numbers such as 1.200 in column 'income', which may be 1200 or 1.2: write it "
        "without marks of thousands, or with a comma as the separator"
    )


@pytest.mark.parametrize(
    "content",
    ["0.123 1.200", "1.200 1.25", "1.200 2.5", "1200.500 1.200", "1.200e0 1.200", "950 1200"],
)
def test_points_that_are_certainly_decimal_pass(content):
    lines = "".join(f"a;{field}\n" for field in content.split())
    assert layout_of(f"id;x\n{lines}".encode()).decimal == "."


def test_three_decimals_between_commas_pass():
    assert layout_of(b"id,x\na,1.200\nb,12.500\n").decimal == "."


def test_a_text_that_ends_with_a_backslash_is_no_escaped_quote():
    """The names of the rows are R's."""
    layout_of(b'"x","y"\n"1","C:\\",2\n"2","D:\\",3\n')


def test_a_name_that_pandas_itself_would_make_is_no_twin():
    layout_of(b"x,x.1,,\n1,2,,\n")
