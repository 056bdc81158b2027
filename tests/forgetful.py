"""A sink for tests that remembers no batch: a class of its own says what it does with one."""


class Forgetful:
    name = "forgetful"

    def location(self):
        return "nowhere"

    def committed(self, mark):
        return False

    def last_committed(self, mark):
        return None
