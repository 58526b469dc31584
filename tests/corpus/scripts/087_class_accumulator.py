# task: Keep a small account book with deposits and withdrawals using the add tool, refusing overdrafts.
# expects: {"balance": 70, "entries": [100, -30], "refused": [200]}
class Account:
    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.balance = 0
        self.entries: list[int] = []

    async def book(self, amount: int) -> bool:
        new_balance = (await demoAdd(a=self.balance, b=amount))["sum"]
        if new_balance < 0:
            return False
        self.balance = new_balance
        self.entries.append(amount)
        return True

    def __repr__(self) -> str:
        return f"Account({self.owner!r}, balance={self.balance})"


account = Account("Ann")
refused = []
for amount in (100, -30, -200):
    if not await account.book(amount):
        refused.append(abs(amount))

print(account)
{"balance": account.balance, "entries": account.entries, "refused": refused}
