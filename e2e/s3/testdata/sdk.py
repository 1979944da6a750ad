"""Uses a service by boto3, and fails with a traceback if it does what it should not."""
import os
import urllib.request

import boto3
from boto3.s3.transfer import TransferConfig
from botocore.client import Config
from botocore.exceptions import ClientError

s3 = boto3.client("s3", endpoint_url=os.environ["S3"], config=Config(signature_version="s3v4", s3={"addressing_style": "path"}))


def refused(status, call, **arguments):
    try:
        call(**arguments)
    except ClientError as error:
        assert error.response["ResponseMetadata"]["HTTPStatusCode"] == status, error.response
        return error.response["Error"]["Code"]
    raise AssertionError(f"{call} {arguments} succeeds")


# An object with all that can be said of it.
s3.create_bucket(Bucket="team")
put = s3.put_object(Bucket="team", Key="dir/ä &<>.txt", Body=b"0123456789", ContentType="text/plain", Metadata={"a": "b"},
                    ContentLanguage="en", CacheControl="max-age=1", ChecksumAlgorithm="SHA256")
head = s3.head_object(Bucket="team", Key="dir/ä &<>.txt")
assert head["ETag"] == put["ETag"] and head["Metadata"] == {"a": "b"} and head["ContentLanguage"] == "en", head
got = s3.get_object(Bucket="team", Key="dir/ä &<>.txt", Range="bytes=2-4")
assert got["Body"].read() == b"234" and got["ContentRange"] == "bytes 2-4/10", got
assert refused(304, s3.get_object, Bucket="team", Key="dir/ä &<>.txt", IfNoneMatch=put["ETag"]) == "304"
assert refused(412, s3.get_object, Bucket="team", Key="dir/ä &<>.txt", IfMatch='"x"') == "PreconditionFailed"
assert refused(404, s3.get_object, Bucket="team", Key="none") == "NoSuchKey"

# A copy keeps headers, and its conditions count.
s3.copy_object(Bucket="other", Key="copy", CopySource={"Bucket": "team", "Key": "dir/ä &<>.txt"}, CopySourceIfMatch=put["ETag"])
head = s3.head_object(Bucket="other", Key="copy")
assert head["Metadata"] == {"a": "b"} and head["CacheControl"] == "max-age=1" and head["ContentType"] == "text/plain", head

# Uneven parts with gaps, one of them from another object.
upload = s3.create_multipart_upload(Bucket="team", Key="uneven")["UploadId"]
part = dict(Bucket="team", Key="uneven", UploadId=upload)
first = s3.upload_part(PartNumber=3, Body=b"a" * (5 << 20), **part)
s3.upload_part(PartNumber=4, Body=b"not named", **part)
second = s3.upload_part(PartNumber=9, Body=b"b" * (6 << 20), **part)
s3.put_object(Bucket="other", Key="source", Body=b"the end")
third = s3.upload_part_copy(PartNumber=10000, CopySource={"Bucket": "other", "Key": "source"}, CopySourceRange="bytes=4-6", **part)
listed = [p["PartNumber"] for page in s3.get_paginator("list_parts").paginate(PaginationConfig={"PageSize": 3}, **part) for p in page["Parts"]]
assert listed == [3, 4, 9, 10000], listed
named = [{"PartNumber": 3, "ETag": first["ETag"]}, {"PartNumber": 9, "ETag": second["ETag"]}, {"PartNumber": 10000, "ETag": third["CopyPartResult"]["ETag"]}]
done = s3.complete_multipart_upload(MultipartUpload={"Parts": named}, **part)
assert done["ETag"] == s3.head_object(Bucket="team", Key="uneven")["ETag"]
aborted = s3.create_multipart_upload(Bucket="team", Key="aborted")["UploadId"]
assert [u["Key"] for u in s3.list_multipart_uploads(Bucket="team")["Uploads"]] == ["aborted"]
s3.abort_multipart_upload(Bucket="team", Key="aborted", UploadId=aborted)
assert refused(404, s3.upload_part, Bucket="team", Key="aborted", UploadId=aborted, PartNumber=1, Body=b"x") == "NoSuchUpload"

# Lists of more than a page, and a thousand deletions at once.
for i in range(60):
    s3.put_object(Bucket="many", Key=f"{i % 4}/{i:03}", Body=b"x")
pages = s3.get_paginator("list_objects_v2").paginate(Bucket="many", PaginationConfig={"PageSize": 7})
keys = [o["Key"] for page in pages for o in page.get("Contents", [])]
assert keys == sorted(f"{i % 4}/{i:03}" for i in range(60)), keys
groups = [p["Prefix"] for page in s3.get_paginator("list_objects").paginate(Bucket="many", Delimiter="/", PaginationConfig={"PageSize": 1})
          for p in page.get("CommonPrefixes", [])]
assert groups == ["0/", "1/", "2/", "3/"], groups
deleted = s3.delete_objects(Bucket="many", Delete={"Objects": [{"Key": k} for k in keys] + [{"Key": f"none{i}"} for i in range(940)]})
assert len(deleted["Deleted"]) == 1000 and "Errors" not in deleted, deleted
assert s3.list_objects_v2(Bucket="many")["KeyCount"] == 0

# The transfer manager, a presigned URL, and a form.
with open("big", "wb") as file:
    file.write(os.urandom(11 << 20))
s3.upload_file("big", "team", "big", Config=TransferConfig(multipart_threshold=5 << 20, multipart_chunksize=5 << 20))
s3.download_file("team", "big", "back")
assert open("big", "rb").read() == open("back", "rb").read()
url = s3.generate_presigned_url("get_object", Params={"Bucket": "team", "Key": "big", "ResponseContentType": "x/y"})
response = urllib.request.urlopen(url)
assert response.headers["Content-Type"] == "x/y" and len(response.read()) == 11 << 20
post = s3.generate_presigned_post("team", "posted/${filename}", Conditions=[["content-length-range", 1, 100]])
boundary = "boundary"
body = "".join(f'--{boundary}\r\nContent-Disposition: form-data; name="{k}"\r\n\r\n{v}\r\n' for k, v in post["fields"].items())
body += f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\nposted\r\n--{boundary}--\r\n'
request = urllib.request.Request(post["url"], body.encode(), {"Content-Type": f"multipart/form-data; boundary={boundary}"})
assert urllib.request.urlopen(request).status == 204
assert s3.get_object(Bucket="team", Key="posted/f")["Body"].read() == b"posted"
tags = [{"Key": "a b", "Value": "ä"}, {"Key": "k", "Value": ""}]
s3.put_object_tagging(Bucket="team", Key="big", Tagging={"TagSet": tags})
assert s3.get_object_tagging(Bucket="team", Key="big")["TagSet"] == tags
assert s3.head_object(Bucket="team", Key="big")["ResponseMetadata"]["HTTPHeaders"]["x-amz-tagging-count"] == "2"
print("ok")
